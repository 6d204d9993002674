// The replay: body poses come from the page's data, this file interpolates between them and draws the shapes.
(() => {
  "use strict";

  // ---- small algebra; matrices are column-major, quaternions have w first

  function rotation([w, x, y, z]) {
    return [
      1 - 2 * (y * y + z * z), 2 * (x * y + w * z), 2 * (x * z - w * y),
      2 * (x * y - w * z), 1 - 2 * (x * x + z * z), 2 * (y * z + w * x),
      2 * (x * z + w * y), 2 * (y * z - w * x), 1 - 2 * (x * x + y * y),
    ];
  }
  function turn(a, b) {
    return [
      a[0] * b[0] - a[1] * b[1] - a[2] * b[2] - a[3] * b[3],
      a[0] * b[1] + a[1] * b[0] + a[2] * b[3] - a[3] * b[2],
      a[0] * b[2] - a[1] * b[3] + a[2] * b[0] + a[3] * b[1],
      a[0] * b[3] + a[1] * b[2] - a[2] * b[1] + a[3] * b[0],
    ];
  }
  function rotate(q, v) {
    const m = rotation(q);
    return [0, 1, 2].map((i) => m[i] * v[0] + m[3 + i] * v[1] + m[6 + i] * v[2]);
  }
  function placed(q, p, s) {
    const m = rotation(q);
    return [
      m[0] * s[0], m[1] * s[0], m[2] * s[0], 0, m[3] * s[1], m[4] * s[1], m[5] * s[1], 0,
      m[6] * s[2], m[7] * s[2], m[8] * s[2], 0, p[0], p[1], p[2], 1,
    ];
  }
  function times(a, b) {
    const out = new Array(16);
    for (let c = 0; c < 4; c++)
      for (let r = 0; r < 4; r++)
        out[4 * c + r] = a[r] * b[4 * c] + a[4 + r] * b[4 * c + 1] + a[8 + r] * b[4 * c + 2] + a[12 + r] * b[4 * c + 3];
    return out;
  }
  const minus = (a, b) => a.map((v, i) => v - b[i]);
  const dot = (a, b) => a.reduce((s, v, i) => s + v * b[i], 0);
  const unit = (a) => { const n = Math.hypot(...a) || 1; return a.map((v) => v / n); };
  const cross = (a, b) => [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]];

  function lookAt(eye, at) {
    const back = unit(minus(eye, at)), right = unit(cross([0, 0, 1], back)), up = cross(back, right);
    return [
      right[0], up[0], back[0], 0, right[1], up[1], back[1], 0, right[2], up[2], back[2], 0,
      -dot(right, eye), -dot(up, eye), -dot(back, eye), 1,
    ];
  }
  function perspective(degrees, aspect, near, far) {
    const f = 1 / Math.tan((degrees * Math.PI) / 360);
    return [f / aspect, 0, 0, 0, 0, f, 0, 0, 0, 0, (far + near) / (near - far), -1, 0, 0, (2 * far * near) / (near - far), 0];
  }

  // ---- data

  async function unpack(text, frames) {
    const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    const raw = new DataView(await new Response(stream).arrayBuffer());
    const columns = raw.byteLength / 2 / frames;
    const out = new Int16Array(frames * columns); // [frame, column]
    for (let c = 0; c < columns; c++) {
      let value = 0;
      for (let t = 0; t < frames; t++) {
        value += raw.getInt16(2 * (c * frames + t), true);
        out[t * columns + c] = value;
      }
    }
    return { values: out, columns };
  }

  async function load(episode) {
    if (episode.ready) return episode;
    episode.pose = await unpack(episode.poses, episode.frames);
    episode.signal = await unpack(episode.signals.data, episode.frames);
    if (episode.terrain.heights) episode.ground = await unpack(episode.terrain.heights, episode.terrain.side);
    episode.ready = true;
    return episode;
  }

  // Position and quaternion of every body at a moment between two frames.
  function bodies(e, time) {
    const at = Math.min(Math.max(time * e.hz, 0), e.frames - 1);
    const t = Math.min(Math.floor(at), Math.max(e.frames - 2, 0)), part = at - t, next = Math.min(t + 1, e.frames - 1);
    const { values, columns } = e.pose, out = [];
    for (let k = 0; k < columns; k += 7) {
      const a = t * columns + k, b = next * columns + k;
      const mix = (i) => values[a + i] + (values[b + i] - values[a + i]) * part;
      out.push({ p: [mix(0) * e.unit, mix(1) * e.unit, mix(2) * e.unit], q: unit([mix(3), mix(4), mix(5), mix(6)]) });
    }
    return out;
  }
  function signal(e, time, k) {
    const t = Math.min(Math.max(Math.round(time * e.hz), 0), e.frames - 1);
    return e.signal.values[t * e.signal.columns + k] / 1000;
  }

  // ---- meshes: positions and normals, triangles

  function sphereMesh(rings = 12, sides = 18) {
    const v = [], index = [];
    for (let i = 0; i <= rings; i++)
      for (let j = 0; j <= sides; j++) {
        const a = (Math.PI * i) / rings, b = (2 * Math.PI * j) / sides;
        const n = [Math.sin(a) * Math.cos(b), Math.sin(a) * Math.sin(b), Math.cos(a)];
        v.push(...n, ...n);
        if (i < rings && j < sides) {
          const k = i * (sides + 1) + j;
          index.push(k, k + sides + 1, k + 1, k + 1, k + sides + 1, k + sides + 2);
        }
      }
    return { v, index };
  }
  function cylinderMesh(sides = 18) {
    const v = [], index = [];
    for (let j = 0; j <= sides; j++) {
      const b = (2 * Math.PI * j) / sides, x = Math.cos(b), y = Math.sin(b);
      v.push(x, y, 1, x, y, 0, x, y, -1, x, y, 0, x, y, 1, 0, 0, 1, x, y, -1, 0, 0, -1);
      if (j < sides) {
        const k = 4 * j, first = 4 * (sides + 1);
        index.push(k, k + 1, k + 4, k + 4, k + 1, k + 5, first, k + 2, k + 6, first + 1, k + 7, k + 3);
      }
    }
    v.push(0, 0, 1, 0, 0, 1, 0, 0, -1, 0, 0, -1);
    return { v, index };
  }
  function boxMesh() {
    const v = [], index = [];
    for (const axis of [0, 1, 2])
      for (const side of [1, -1]) {
        const k = v.length / 6, n = [0, 0, 0];
        n[axis] = side;
        for (const [a, b] of [[-1, -1], [1, -1], [1, 1], [-1, 1]]) {
          const p = [0, 0, 0];
          p[axis] = side; p[(axis + 1) % 3] = a * side; p[(axis + 2) % 3] = b;
          v.push(...p, ...n);
        }
        index.push(k, k + 1, k + 2, k, k + 2, k + 3);
      }
    return { v, index };
  }
  // One period of the terrain: samples at -size/2 + i * step along x, j along y; the last row continues the first.
  function tileMesh(e) {
    const { side, size } = e.terrain, step = size / side, v = [], index = [];
    const h = (i, j) => e.ground.values[((i + side) % side) * side + ((j + side) % side)] / 10000;
    for (let i = 0; i <= side; i++)
      for (let j = 0; j <= side; j++) {
        const n = unit([h(i - 1, j) - h(i + 1, j), h(i, j - 1) - h(i, j + 1), 2 * step]);
        v.push(i * step - size / 2, j * step - size / 2, h(i, j), ...n);
        if (i < side && j < side) {
          const k = i * (side + 1) + j;
          index.push(k, k + side + 1, k + side + 2, k, k + side + 2, k + 1); // cut as the physics cuts its cells
        }
      }
    return { v, index };
  }
  function planeMesh() {
    return { v: [-1, -1, 0, 0, 0, 1, 1, -1, 0, 0, 0, 1, 1, 1, 0, 0, 0, 1, -1, 1, 0, 0, 0, 1], index: [0, 1, 2, 0, 2, 3] };
  }

  // ---- drawing

  const VERTEX = `attribute vec3 p, n; uniform mat4 model, camera; uniform mat3 turned; varying vec3 normal, world;
    void main() { vec4 at = model * vec4(p, 1.0); world = at.xyz; normal = turned * n; gl_Position = camera * at; }`;
  const FRAGMENT = `precision highp float; varying vec3 normal, world; uniform vec3 colour, line, sky, middle; uniform float grid, flatly;
    void main() {
      vec3 n = normalize(normal); float sun = max(dot(n, normalize(vec3(0.4, 0.3, 0.85))), 0.0);
      vec3 c = colour * mix(grid > 0.5 ? 0.36 + 0.12 * n.z + 0.63 * sun : 0.62 + 0.16 * n.z + 0.36 * sun, 1.0, flatly);
      if (grid > 0.5) {
        vec2 edge = abs(fract(world.xy * 2.0 - 0.5) - 0.5) / 2.0; float d = length(world - middle);
        float width = 0.004 + 0.0035 * d; float on = 1.0 - smoothstep(width * 0.4, width, min(edge.x, edge.y));
        c = mix(c, line, on * 0.75); c = mix(c, sky, smoothstep(3.0, 8.5, d));
      }
      gl_FragColor = vec4(c, 1.0); }`;

  class Painter {
    constructor(canvas) {
      const gl = canvas.getContext("webgl", { antialias: true, preserveDrawingBuffer: true });
      if (!gl) throw new Error("no WebGL");
      this.gl = gl;
      this.canvas = canvas;
      const program = gl.createProgram();
      for (const [kind, source] of [[gl.VERTEX_SHADER, VERTEX], [gl.FRAGMENT_SHADER, FRAGMENT]]) {
        const shader = gl.createShader(kind);
        gl.shaderSource(shader, source);
        gl.compileShader(shader);
        if (!gl.getShaderParameter(shader, gl.COMPILE_STATUS)) throw new Error(gl.getShaderInfoLog(shader));
        gl.attachShader(program, shader);
      }
      gl.bindAttribLocation(program, 0, "p");
      gl.bindAttribLocation(program, 1, "n");
      gl.linkProgram(program);
      gl.useProgram(program);
      this.at = {};
      for (const name of ["model", "camera", "turned", "colour", "line", "sky", "middle", "grid", "flatly"])
        this.at[name] = gl.getUniformLocation(program, name);
      gl.enable(gl.DEPTH_TEST);
      this.meshes = { sphere: this.mesh(sphereMesh()), cylinder: this.mesh(cylinderMesh()), box: this.mesh(boxMesh()), plane: this.mesh(planeMesh()) };
      this.colours();
    }
    mesh({ v, index }) {
      const gl = this.gl, vertices = gl.createBuffer(), triangles = gl.createBuffer();
      gl.bindBuffer(gl.ARRAY_BUFFER, vertices);
      gl.bufferData(gl.ARRAY_BUFFER, new Float32Array(v), gl.STATIC_DRAW);
      gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, triangles);
      gl.bufferData(gl.ELEMENT_ARRAY_BUFFER, new Uint16Array(index), gl.STATIC_DRAW);
      return { vertices, triangles, count: index.length };
    }
    colours() {
      const style = getComputedStyle(document.documentElement);
      this.colour = {};
      for (const name of ["sky", "ground", "ground-line", "trunk", "leg", "foot", "c0", "c1"]) {
        const hex = style.getPropertyValue(`--${name}`).trim();
        this.colour[name] = [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16) / 255);
      }
    }
    begin(eye, at) {
      const gl = this.gl, ratio = Math.min(devicePixelRatio || 1, 2);
      const width = Math.round(this.canvas.clientWidth * ratio), height = Math.round(this.canvas.clientHeight * ratio);
      if (this.canvas.width !== width || this.canvas.height !== height) Object.assign(this.canvas, { width, height });
      gl.viewport(0, 0, width, height);
      gl.clearColor(...this.colour.sky, 1);
      gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
      gl.uniformMatrix4fv(this.at.camera, false, times(perspective(38, width / Math.max(height, 1), 0.05, 60), lookAt(eye, at)));
      gl.uniform3fv(this.at.sky, this.colour.sky);
      gl.uniform3fv(this.at.line, this.colour["ground-line"]);
      gl.uniform3fv(this.at.middle, at);
    }
    draw(mesh, model, turned, colour, { grid = 0, flatly = 0 } = {}) {
      const gl = this.gl;
      gl.bindBuffer(gl.ARRAY_BUFFER, mesh.vertices);
      gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, mesh.triangles);
      gl.enableVertexAttribArray(0);
      gl.vertexAttribPointer(0, 3, gl.FLOAT, false, 24, 0);
      gl.enableVertexAttribArray(1);
      gl.vertexAttribPointer(1, 3, gl.FLOAT, false, 24, 12);
      gl.uniformMatrix4fv(this.at.model, false, model);
      gl.uniformMatrix3fv(this.at.turned, false, turned);
      gl.uniform3fv(this.at.colour, colour);
      gl.uniform1f(this.at.grid, grid);
      gl.uniform1f(this.at.flatly, flatly);
      gl.drawElements(gl.TRIANGLES, mesh.count, gl.UNSIGNED_SHORT, 0);
    }
    shape(kind, q, p, size, colour, squash, flatly = squash ? 1 : 0) {
      const parts = [];
      if (kind === "sphere") parts.push(["sphere", p, [size[0], size[0], size[0]]]);
      else if (kind === "ellipsoid") parts.push(["sphere", p, size]);
      else if (kind === "box") parts.push(["box", p, size]);
      else {
        parts.push(["cylinder", p, [size[0], size[0], size[1]]]);
        if (kind === "capsule")
          for (const side of [-1, 1]) {
            const end = rotate(q, [0, 0, side * size[1]]);
            parts.push(["sphere", p.map((v, i) => v + end[i]), [size[0], size[0], size[0]]]);
          }
      }
      for (const [mesh, place, scale] of parts) {
        // Normals of a stretched shape: turned by the rotation after dividing by the stretch.
        const m = rotation(q), turned = m.map((v, i) => v / scale[Math.floor(i / 3)]);
        const model = placed(q, place, scale);
        this.draw(this.meshes[mesh], squash ? times(squash, model) : model, turned, colour, { flatly });
      }
    }
    // A shaft with a ball at its end, lying along `vector` above the trunk.
    arrow(from, vector, colour) {
      const length = Math.hypot(...vector);
      if (length < 0.03) return;
      const d = unit(vector), half = Math.hypot(1 + d[2], d[0], d[1]) || 1;
      const q = d[2] < -0.999 ? [0, 1, 0, 0] : unit([1 + d[2], -d[1], d[0], 0].map((v) => v / half));
      const middle = from.map((v, i) => v + vector[i] / 2), end = from.map((v, i) => v + vector[i]);
      this.shape("capsule", q, middle, [0.009, length / 2], colour, null, 0.7);
      this.shape("sphere", [1, 0, 0, 0], end, [0.022], colour, null, 0.7);
    }
  }

  // ---- one player per replay block

  class Player {
    constructor(root) {
      this.root = root;
      this.data = JSON.parse(root.querySelector(".replay-data").textContent);
      this.canvas = root.querySelector(".view");
      this.hint = root.querySelector(".hint");
      this.time = 0;
      this.playing = false;
      this.view = { yaw: -2.2, pitch: 0.32, distance: Math.max(0.75, 6.2 * this.data.robot.height) };
      this.follow = null;
      try {
        this.painter = new Painter(this.canvas);
      } catch (error) {
        this.hint.textContent = "This browser offers no WebGL; the curves below still follow the episode.";
      }
      this.controls();
      this.choose(0);
      matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { if (this.painter) this.painter.colours(); this.draw(); });
      new ResizeObserver(() => this.draw()).observe(root);
    }

    get length() { return this.episode ? (this.episode.frames - 1) / this.episode.hz : 0; }

    async choose(k) {
      const wanted = this.data.episodes[k];
      this.wanted = wanted;
      try {
        await load(wanted);
      } catch (error) {
        this.hint.textContent = "This browser cannot unpack the episode; a newer one can.";
        return;
      }
      if (this.wanted !== wanted) return;
      this.episode = wanted;
      this.time = 0;
      this.follow = null;
      this.tile = wanted.ground && this.painter ? this.painter.mesh(tileMesh(wanted)) : null;
      const cards = this.root.querySelectorAll(".episode");
      cards.forEach((c, i) => c.setAttribute("aria-pressed", String(i === k)));
      this.root.querySelector(".caption").textContent =
        cards[k].dataset.caption + (wanted.terrain.missing ? "; the terrain is not in the trace and is drawn flat" : "");
      this.root.dataset.ready = "true";
      this.draw();
    }

    controls() {
      const $ = (s) => this.root.querySelector(s);
      this.play = $(".play");
      this.scrub = $(".scrub");
      this.clock = $(".clock");
      this.play.addEventListener("click", () => this.toggle());
      this.scrub.addEventListener("input", () => { this.time = (this.scrub.value / 1000) * this.length; this.draw(); });
      this.root.querySelectorAll(".episode").forEach((c) => c.addEventListener("click", () => this.choose(Number(c.dataset.episode))));
      this.root.querySelectorAll(".plot").forEach((plot) => {
        const seek = (event) => {
          if (event.type === "pointermove" && !event.buttons) return;
          const box = plot.getBoundingClientRect(), [left, right] = margins;
          this.time = Math.min(Math.max((event.clientX - box.left - left) / (box.width - left - right), 0), 1) * this.length;
          this.draw();
        };
        plot.addEventListener("pointerdown", seek);
        plot.addEventListener("pointermove", seek);
      });
      const pointers = new Map();
      this.canvas.addEventListener("pointerdown", (event) => {
        this.canvas.setPointerCapture(event.pointerId);
        pointers.set(event.pointerId, [event.clientX, event.clientY]);
      });
      const apart = () => { const [a, b] = [...pointers.values()]; return Math.hypot(a[0] - b[0], a[1] - b[1]); };
      this.canvas.addEventListener("pointermove", (event) => {
        const before = pointers.get(event.pointerId);
        if (!before) return;
        const gap = pointers.size > 1 ? apart() : 0;
        pointers.set(event.pointerId, [event.clientX, event.clientY]);
        if (pointers.size > 1) this.zoom(gap / Math.max(apart(), 1));
        else this.orbit(event.clientX - before[0], event.clientY - before[1]);
      });
      for (const end of ["pointerup", "pointercancel"]) this.canvas.addEventListener(end, (e) => pointers.delete(e.pointerId));
      this.canvas.addEventListener("wheel", (event) => { event.preventDefault(); this.zoom(Math.exp(event.deltaY * 0.001)); }, { passive: false });
      this.canvas.addEventListener("keydown", (event) => {
        const step = { ArrowLeft: [-24, 0], ArrowRight: [24, 0], ArrowUp: [0, -24], ArrowDown: [0, 24] }[event.key];
        if (step) this.orbit(...step);
        else if (event.key === "+") this.zoom(0.9);
        else if (event.key === "-") this.zoom(1.1);
        else if (event.key === " ") this.toggle();
        else return;
        event.preventDefault();
      });
    }

    orbit(dx, dy) {
      this.view.yaw -= dx * 0.008;
      this.view.pitch = Math.min(Math.max(this.view.pitch + dy * 0.006, 0.04), 1.5);
      this.draw();
    }
    zoom(factor) {
      this.view.distance = Math.min(Math.max(this.view.distance * factor, 0.4), 12);
      this.draw();
    }

    toggle() {
      this.playing = !this.playing;
      this.play.textContent = this.playing ? "❚❚" : "▶";
      if (!this.playing) return;
      if (this.time >= this.length - 1e-6) this.time = 0;
      let before = performance.now();
      const tick = (now) => {
        if (!this.playing) return;
        this.time += Math.min((now - before) / 1000, 0.25) * Number(this.root.querySelector(".speed").value);
        before = now;
        if (this.time >= this.length) { this.time = this.length; this.toggle(); }
        this.draw();
        if (this.playing) requestAnimationFrame(tick);
      };
      requestAnimationFrame(tick);
    }

    draw() {
      if (!this.episode) return;
      this.scrub.value = String(this.length ? (1000 * this.time) / this.length : 0);
      this.clock.textContent = `${this.time.toFixed(2)} s`;
      if (this.painter && this.canvas.clientWidth) this.scene();
      this.root.querySelectorAll(".plot").forEach((plot) => this.curve(plot));
    }

    scene() {
      const e = this.episode, all = bodies(e, this.time), { robot } = this.data, painter = this.painter;
      const trunk = all[robot.shapes.find((s) => s.part === "trunk")?.body ?? 0];
      const height = robot.height;
      // The camera follows over the ground and, slowly, in height: falls must be seen to fall.
      const at = [trunk.p[0], trunk.p[1], 0.62 * height + (this.tile ? trunk.p[2] - height : 0)];
      const { yaw, pitch, distance } = this.view;
      const eye = [at[0] + distance * Math.cos(pitch) * Math.cos(yaw), at[1] + distance * Math.cos(pitch) * Math.sin(yaw), Math.max(at[2] + distance * Math.sin(pitch), at[2] + 0.05)];
      painter.begin(eye, at);
      const same = [1, 0, 0, 0, 1, 0, 0, 0, 1], stay = [1, 0, 0, 0], c = painter.colour;
      if (this.tile) {
        const size = e.terrain.size, i = Math.round(at[0] / size), j = Math.round(at[1] / size);
        for (let a = -1; a <= 1; a++)
          for (let b = -1; b <= 1; b++)
            painter.draw(this.tile, placed(stay, [(i + a) * size, (j + b) * size, 0], [1, 1, 1]), same, c.ground, { grid: 1 });
      } else painter.draw(painter.meshes.plane, placed(stay, [at[0], at[1], 0], [30, 30, 1]), same, c.ground, { grid: 1 });
      // On flat ground the shadow is the robot itself, pressed onto the floor along the sun.
      const squash = this.tile ? null : [1, 0, 0, 0, 0, 1, 0, 0, -0.25, -0.18, 0, 0, 0, 0, 0.003, 1];
      const shadow = c.ground.map((v) => v * 0.8);
      for (const pass of squash ? [squash, null] : [null])
        for (const s of robot.shapes) {
          const b = all[s.body], p = rotate(b.q, s.position).map((v, k) => v + b.p[k]);
          painter.shape(s.kind, turn(b.q, s.quaternion), p, s.size, pass ? shadow : c[s.part], pass);
        }
      const above = [trunk.p[0], trunk.p[1], trunk.p[2] + 0.6 * height];
      const yawOf = Math.atan2(2 * (trunk.q[0] * trunk.q[3] + trunk.q[1] * trunk.q[2]), 1 - 2 * (trunk.q[2] ** 2 + trunk.q[3] ** 2));
      const ahead = (x, y) => [0.45 * (x * Math.cos(yawOf) - y * Math.sin(yawOf)), 0.45 * (x * Math.sin(yawOf) + y * Math.cos(yawOf)), 0];
      painter.arrow(above, ahead(signal(e, this.time, 0), signal(e, this.time, 2)), c.c0);
      painter.arrow([above[0], above[1], above[2] + 0.03], ahead(signal(e, this.time, 1), signal(e, this.time, 3)), c.c1);
    }

    curve(plot) {
      const e = this.episode, kind = plot.dataset.plot, { values, columns } = e.signal;
      const pick = { vx: [0, 1], wz: [4, 5], tilt: [6], torque: e.signals.torque ? [7] : [] }[kind];
      const ratio = Math.min(devicePixelRatio || 1, 2), w = plot.clientWidth, h = plot.clientHeight;
      if (!w) return;
      if (plot.width !== Math.round(w * ratio)) Object.assign(plot, { width: Math.round(w * ratio), height: Math.round(h * ratio) });
      const ctx = plot.getContext("2d"), style = getComputedStyle(document.documentElement);
      const colour = (name) => style.getPropertyValue(`--${name}`).trim();
      ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
      ctx.clearRect(0, 0, w, h);
      ctx.font = "11px system-ui, sans-serif";
      ctx.fillStyle = colour("soft");
      if (!pick.length) return void ctx.fillText("not measured", margins[0], h / 2);
      const scale = kind === "tilt" ? 10 / 1000 : 1 / 1000;
      let low = 0, high = kind === "torque" ? 1 : kind === "tilt" ? 10 : 0;
      for (let t = 0; t < e.frames; t++)
        for (const k of pick) {
          const v = values[t * columns + k] * scale;
          if (v < low) low = v;
          if (v > high) high = v;
        }
      if (high - low < 0.2) high = low + 0.2;
      const raw = (high - low) / 3, power = 10 ** Math.floor(Math.log10(raw));
      const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((s) => s >= raw * 0.999);
      low = Math.floor(low / step + 1e-6) * step;
      high = Math.ceil(high / step - 1e-6) * step;
      const [left, right, top, bottom] = margins;
      const x = (t) => left + ((w - left - right) * t) / Math.max(e.frames - 1, 1);
      const y = (v) => top + (h - top - bottom) * (1 - (v - low) / (high - low || 1));
      ctx.strokeStyle = colour("line");
      ctx.textAlign = "right";
      for (let v = low; v < high + step / 2; v += step) {
        ctx.beginPath();
        ctx.moveTo(left, y(v));
        ctx.lineTo(w - right, y(v));
        ctx.stroke();
        const text = kind === "torque" ? `${Math.round(100 * v)}%` : kind === "tilt" ? `${v.toFixed(0)}°` : String(Math.round(100 * v) / 100);
        ctx.fillText(text.replace("-", "−"), left - 6, y(v) + 4);
      }
      ctx.lineWidth = 1.6;
      pick.forEach((k, i) => {
        ctx.strokeStyle = colour(pick.length > 1 ? ["c0", "c1"][i] : kind === "tilt" ? "c2" : "c7");
        ctx.beginPath();
        for (let t = 0; t < e.frames; t++) ctx.lineTo(x(t), y(values[t * columns + k] * scale));
        ctx.stroke();
      });
      ctx.lineWidth = 1;
      ctx.strokeStyle = colour("ink");
      const now = x(this.time * e.hz);
      ctx.beginPath();
      ctx.moveTo(now, 0);
      ctx.lineTo(now, h);
      ctx.stroke();
    }
  }
  const margins = [42, 6, 8, 8]; // of a plot: left, right, top, bottom

  // A player starts when its block first comes into view.
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries)
      if (entry.isIntersecting) {
        seen.unobserve(entry.target);
        entry.target.player = new Player(entry.target);
      }
  }, { rootMargin: "300px" });
  document.querySelectorAll(".replay").forEach((root) => seen.observe(root));
})();
