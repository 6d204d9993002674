// The replay: body poses come from the page's data, this file interpolates between them and draws the shapes.
// All players of a page share one WebGL context, whose picture is copied into each one's canvas; where there is
// no WebGL the same shapes are drawn flat.
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
  const plus = (a, b, by = 1) => a.map((v, i) => v + by * b[i]);
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
  function coneMesh(sides = 18) {
    const v = [], index = [];
    for (let j = 0; j <= sides; j++) {
      const b = (2 * Math.PI * j) / sides, x = Math.cos(b), y = Math.sin(b);
      v.push(0, 0, 1, x, y, 0.5, x, y, -1, x, y, 0.5, 0, 0, -1, 0, 0, -1, x, y, -1, 0, 0, -1);
      if (j < sides) index.push(4 * j, 4 * j + 1, 4 * j + 5, 4 * j + 2, 4 * j + 7, 4 * j + 3);
    }
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

  // ---- drawing. A scene: eye, at (what the camera looks at), middle (what casts the shadow), reach (how far it
  // extends), ground (an episode, or null for a plane), and solids: {kind, q, p, size, colour, flatly, casts}.

  const SUN = unit([0.42, 0.3, 0.85]), FIELD = 38, SHADOW = 512, FLAT = [1, 0, 0, 0];

  const VERTEX = `attribute vec3 p, n; uniform mat4 model, camera; uniform mat3 turned; varying vec3 normal, world;
    void main() { vec4 at = model * vec4(p, 1.0); world = at.xyz; normal = turned * n; gl_Position = camera * at; }`;
  // The shadow is the robot's outline as the sun sees it; the ground looks up whether it lies behind that.
  const FRAGMENT = `precision highp float; varying vec3 normal, world; uniform vec3 colour, line, sky, middle, sun;
    uniform float grid, flatly; uniform mat4 light; uniform sampler2D outline;
    void main() {
      vec3 n = normalize(normal); float lit = max(dot(n, sun), 0.0);
      vec3 c = colour * mix(grid > 0.5 ? 0.36 + 0.12 * n.z + 0.63 * lit : 0.62 + 0.16 * n.z + 0.36 * lit, 1.0, flatly);
      if (grid > 0.5) {
        vec2 edge = abs(fract(world.xy * 2.0 - 0.5) - 0.5) / 2.0; float d = length(world - middle);
        float width = 0.004 + 0.0035 * d; float on = 1.0 - smoothstep(width * 0.4, width, min(edge.x, edge.y));
        c = mix(c, line, on * 0.75);
        vec2 at = (light * vec4(world, 1.0)).xy * 0.5 + 0.5; float dark = 0.0;
        if (all(greaterThan(at, vec2(0.01))) && all(lessThan(at, vec2(0.99))))
          for (int i = -2; i <= 2; i++) for (int j = -2; j <= 2; j++)
            dark += texture2D(outline, at + vec2(i, j) * 1.4 / ${SHADOW}.0).r / 25.0;
        c *= 1.0 - 0.42 * dark; c = mix(c, sky, smoothstep(3.0, 8.5, d));
      }
      gl_FragColor = vec4(c, 1.0); }`;

  function colours() {
    const style = getComputedStyle(document.documentElement), out = {};
    for (const name of ["sky", "ground", "ground-line", "trunk", "leg", "front", "foot", "nose", "commanded", "achieved", "pushed"]) {
      const hex = style.getPropertyValue(`--${name}`).trim();
      out[name] = [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16) / 255);
    }
    return out;
  }

  class Painter {
    constructor() {
      this.canvas = document.createElement("canvas");
      const gl = this.canvas.getContext("webgl", { antialias: true, preserveDrawingBuffer: true });
      if (!gl) throw new Error("no WebGL");
      this.gl = gl;
      this.canvas.addEventListener("webglcontextlost", () => { painter = null; }); // the next picture makes another
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
      for (const name of ["model", "camera", "turned", "colour", "line", "sky", "middle", "sun", "grid", "flatly", "light"])
        this.at[name] = gl.getUniformLocation(program, name);
      gl.enable(gl.DEPTH_TEST);
      gl.enableVertexAttribArray(0);
      gl.enableVertexAttribArray(1);
      this.meshes = {};
      for (const [name, make] of Object.entries({ sphere: sphereMesh, cylinder: cylinderMesh, cone: coneMesh, box: boxMesh, plane: planeMesh }))
        this.meshes[name] = this.mesh(make());
      this.tiles = new WeakMap();
      this.outline = this.texture(SHADOW);
      this.blank = this.texture(1); // bound while the outline is drawn, which nobody may read then
      this.target = gl.createFramebuffer();
      gl.bindFramebuffer(gl.FRAMEBUFFER, this.target);
      gl.framebufferTexture2D(gl.FRAMEBUFFER, gl.COLOR_ATTACHMENT0, gl.TEXTURE_2D, this.outline, 0);
      gl.bindFramebuffer(gl.FRAMEBUFFER, null);
    }
    texture(side) {
      const gl = this.gl, texture = gl.createTexture();
      gl.bindTexture(gl.TEXTURE_2D, texture);
      gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGBA, side, side, 0, gl.RGBA, gl.UNSIGNED_BYTE, new Uint8Array(4 * side * side));
      for (const [name, value] of [["MIN_FILTER", "LINEAR"], ["MAG_FILTER", "LINEAR"], ["WRAP_S", "CLAMP_TO_EDGE"], ["WRAP_T", "CLAMP_TO_EDGE"]])
        gl.texParameteri(gl.TEXTURE_2D, gl[`TEXTURE_${name}`], gl[value]);
      return texture;
    }
    mesh({ v, index }) {
      const gl = this.gl, vertices = gl.createBuffer(), triangles = gl.createBuffer();
      gl.bindBuffer(gl.ARRAY_BUFFER, vertices);
      gl.bufferData(gl.ARRAY_BUFFER, new Float32Array(v), gl.STATIC_DRAW);
      gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, triangles);
      gl.bufferData(gl.ELEMENT_ARRAY_BUFFER, new Uint16Array(index), gl.STATIC_DRAW);
      return { vertices, triangles, count: index.length };
    }
    // Draws the scene and copies it to the canvas of `ctx`.
    paint(scene, ctx, width, height, colour) {
      const gl = this.gl, { canvas, at } = this;
      // The picture only grows, so that players of different sizes do not resize it in turns.
      if (canvas.width < width || canvas.height < height)
        Object.assign(canvas, { width: Math.max(width, canvas.width), height: Math.max(height, canvas.height) });
      const light = times(flat(scene.reach), lookAt(plus(scene.middle, SUN, 4), scene.middle));
      gl.uniformMatrix4fv(at.light, false, light);
      gl.uniform3fv(at.sun, SUN);
      gl.uniform3fv(at.sky, colour.sky);
      gl.uniform3fv(at.line, colour["ground-line"]);
      gl.uniform3fv(at.middle, scene.at);

      gl.bindFramebuffer(gl.FRAMEBUFFER, this.target);
      gl.bindTexture(gl.TEXTURE_2D, this.blank);
      gl.viewport(0, 0, SHADOW, SHADOW);
      gl.clearColor(0, 0, 0, 1);
      gl.clear(gl.COLOR_BUFFER_BIT);
      gl.uniformMatrix4fv(at.camera, false, light);
      for (const s of scene.solids) if (s.casts) this.solid({ ...s, colour: [1, 1, 1], flatly: 1 });

      gl.bindFramebuffer(gl.FRAMEBUFFER, null);
      gl.bindTexture(gl.TEXTURE_2D, this.outline);
      gl.viewport(0, 0, width, height);
      gl.clearColor(...colour.sky, 1);
      gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
      gl.uniformMatrix4fv(at.camera, false, scene.camera);
      this.ground(scene, colour.ground);
      for (const s of scene.solids) this.solid(s);
      ctx.drawImage(canvas, 0, canvas.height - height, width, height, 0, 0, width, height);
    }
    ground({ ground, at }, colour) {
      const same = [1, 0, 0, 0, 1, 0, 0, 0, 1];
      if (!ground) return this.draw(this.meshes.plane, placed(FLAT, [at[0], at[1], 0], [30, 30, 1]), same, colour, 1, 0);
      if (!this.tiles.has(ground)) this.tiles.set(ground, this.mesh(tileMesh(ground)));
      const size = ground.terrain.size, i = Math.round(at[0] / size), j = Math.round(at[1] / size);
      for (let a = -1; a <= 1; a++)
        for (let b = -1; b <= 1; b++)
          this.draw(this.tiles.get(ground), placed(FLAT, [(i + a) * size, (j + b) * size, 0], [1, 1, 1]), same, colour, 1, 0);
    }
    draw(mesh, model, turned, colour, grid, flatly) {
      const gl = this.gl;
      gl.bindBuffer(gl.ARRAY_BUFFER, mesh.vertices);
      gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, mesh.triangles);
      gl.vertexAttribPointer(0, 3, gl.FLOAT, false, 24, 0);
      gl.vertexAttribPointer(1, 3, gl.FLOAT, false, 24, 12);
      gl.uniformMatrix4fv(this.at.model, false, model);
      gl.uniformMatrix3fv(this.at.turned, false, turned);
      gl.uniform3fv(this.at.colour, colour);
      gl.uniform1f(this.at.grid, grid);
      gl.uniform1f(this.at.flatly, flatly);
      gl.drawElements(gl.TRIANGLES, mesh.count, gl.UNSIGNED_SHORT, 0);
    }
    solid({ kind, q, p, size, colour, flatly }) {
      const parts = [];
      if (kind === "sphere") parts.push(["sphere", p, [size[0], size[0], size[0]]]);
      else if (kind === "ellipsoid") parts.push(["sphere", p, size]);
      else if (kind === "box") parts.push(["box", p, size]);
      else if (kind === "cone") parts.push(["cone", p, [size[0], size[0], size[1]]]);
      else {
        parts.push(["cylinder", p, [size[0], size[0], size[1]]]);
        if (kind === "capsule")
          for (const side of [-1, 1]) parts.push(["sphere", plus(p, rotate(q, [0, 0, side * size[1]])), [size[0], size[0], size[0]]]);
      }
      for (const [mesh, place, scale] of parts) {
        // Normals of a stretched shape: turned by the rotation after dividing by the stretch.
        const turned = rotation(q).map((v, i) => v / scale[Math.floor(i / 3)]);
        this.draw(this.meshes[mesh], placed(q, place, scale), turned, colour, 0, flatly);
      }
    }
  }

  // What is drawn where there is no WebGL: outlines from far to near, with the plane's grid and shadow.
  class FlatPainter {
    paint(scene, ctx, width, height, colour) {
      const css = (c, by = 1) => `rgb(${c.map((v) => Math.round(255 * Math.min(v * by, 1))).join(" ")})`;
      const see = (p) => project(scene.camera, p, width, height);
      const thick = (p) => height / 2 / Math.tan((FIELD * Math.PI) / 360) / Math.max(dot(minus(scene.eye, p), unit(minus(scene.eye, scene.at))), 0.05);
      const path = (points) => { ctx.beginPath(); points.forEach((p) => ctx.lineTo(...see(p))); };
      const floor = scene.ground ? scene.at[2] - 0.62 * scene.height : 0;
      ctx.fillStyle = css(colour.sky);
      ctx.fillRect(0, 0, width, height);
      ctx.lineCap = ctx.lineJoin = "round";
      ctx.lineWidth = height / 400;
      ctx.strokeStyle = css(colour["ground-line"]);
      const [i, j] = [0, 1].map((k) => Math.round(2 * scene.at[k]) / 2), far = 1.5 * Math.max(scene.reach, 1);
      for (let d = -far; d <= far; d += 0.5)
        for (const line of [[[i + d, j - far, floor], [i + d, j + far, floor]], [[i - far, j + d, floor], [i + far, j + d, floor]]]) { path(line); ctx.stroke(); }
      const outline = ({ kind, q, p, size }, move) => {
        if (kind === "box") {
          const corners = [];
          for (const a of [-1, 1]) for (const b of [-1, 1]) for (const c of [-1, 1]) corners.push(see(move(plus(p, rotate(q, [a * size[0], b * size[1], c * size[2]])))));
          ctx.beginPath();
          hull(corners).forEach((c) => ctx.lineTo(...c));
          ctx.closePath();
          ctx.lineWidth = 1;
        } else {
          const half = ["sphere", "ellipsoid"].includes(kind) ? 1e-4 : size[1], along = rotate(q, [0, 0, half]);
          path([move(minus(p, along)), move(plus(p, along))]);
          ctx.lineWidth = Math.max(2 * size[0] * thick(p), 1);
        }
        ctx.stroke();
        ctx.fill();
      };
      ctx.strokeStyle = ctx.fillStyle = css(colour.ground, 0.8);
      for (const s of scene.solids) if (s.casts) outline(s, (p) => plus([p[0], p[1], floor], [-SUN[0], -SUN[1], 0], (p[2] - floor) / SUN[2]));
      const near = (s) => dot(minus(s.p, scene.eye), minus(s.p, scene.eye));
      for (const s of [...scene.solids].sort((a, b) => near(b) - near(a))) {
        ctx.strokeStyle = ctx.fillStyle = css(s.colour);
        outline(s, (p) => p);
      }
    }
  }
  function hull(points) {
    const sorted = [...points].sort((a, b) => a[0] - b[0] || a[1] - b[1]);
    const half = (list) => {
      const out = [];
      for (const p of list) {
        while (out.length > 1) {
          const [a, b] = out.slice(-2);
          if ((b[0] - a[0]) * (p[1] - a[1]) - (b[1] - a[1]) * (p[0] - a[0]) > 0) break;
          out.pop();
        }
        out.push(p);
      }
      return out.slice(0, -1);
    };
    return [...half(sorted), ...half(sorted.reverse())];
  }
  const flat = (reach) => [1 / reach, 0, 0, 0, 0, 1 / reach, 0, 0, 0, 0, -0.1, 0, 0, 0, 0, 1];
  function project(camera, p, width, height) {
    const at = [0, 1, 3].map((r) => camera[r] * p[0] + camera[4 + r] * p[1] + camera[8 + r] * p[2] + camera[12 + r]);
    return [((at[0] / at[2] + 1) / 2) * width, ((1 - at[1] / at[2]) / 2) * height];
  }

  let painter = null;
  function thePainter() {
    if (!painter)
      try { painter = new Painter(); } catch (error) { painter = new FlatPainter(); }
    return painter;
  }

  // An arrow along `vector`: a shaft and a cone.
  function arrow(from, vector, width, colour) {
    const length = Math.hypot(...vector);
    if (length < 2 * width) return [];
    const d = unit(vector), q = d[2] < -0.999 ? [0, 1, 0, 0] : unit([1 + d[2], -d[1], d[0], 0]);
    const head = Math.min(6 * width, 0.6 * length), shaft = length - head;
    return [
      { kind: "cylinder", q, p: plus(from, d, shaft / 2), size: [width, shaft / 2], colour, flatly: 0.55 },
      { kind: "cone", q, p: plus(from, d, shaft + head / 2), size: [2.4 * width, head / 2], colour, flatly: 0.55 },
    ];
  }
  // A turn by `angle` from `start` about the vertical through `centre`: an arc that ends in a cone.
  function arc(centre, radius, start, angle, width, colour) {
    if (Math.abs(angle) < 0.15) return [];
    const point = (k) => plus(centre, [radius * Math.cos(start + (angle * k) / 10), radius * Math.sin(start + (angle * k) / 10), 0]);
    const out = [];
    for (let k = 0; k < 9; k++) {
      const way = minus(point(k + 1), point(k));
      out.push({ ...arrow(point(k), plus(way, unit(way), 6 * width), width, colour)[0], p: plus(point(k), way, 0.5) });
      out[k].size = [width, Math.hypot(...way) / 2];
    }
    const tip = arrow(point(9), unit(minus(point(10), point(9))).map((v) => 6.1 * width * v), width, colour);
    return [...out, tip[1]];
  }

  // ---- one player per replay block

  const PUSH_S = [0.15, 0.9]; // how long before and after its moment a push is shown
  const REST_S = 0.8; // how long a loop rests at the end
  const store = new Map();
  function dataOf(id) {
    if (!store.has(id)) store.set(id, JSON.parse(document.getElementById(id).textContent));
    return store.get(id);
  }

  class Player {
    constructor(root) {
      this.root = root;
      this.data = dataOf(root.dataset.of);
      this.canvas = root.querySelector(".view");
      this.ctx = this.canvas.getContext("2d");
      this.hint = root.querySelector(".hint");
      this.cards = [...root.querySelectorAll(".episode")];
      this.stops = JSON.parse(root.dataset.stops || "[]");
      this.time = 0;
      this.playing = false;
      this.visible = true;
      this.view = { yaw: 0.95, pitch: 0.3, distance: Math.max(0.75, (this.stops.length ? 5 : 5.6) * this.data.robot.height) };
      this.restyle();
      this.controls();
      matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { this.restyle(); this.draw(); });
      new ResizeObserver(() => this.draw()).observe(root);
      if (this.stops.length) this.stop(this.stops.length - 1).then(() => {
        if (!matchMedia("(prefers-reduced-motion: reduce)").matches) this.toggle();
      });
      else this.choose(0);
    }

    get length() { return this.episode ? (this.episode.frames - 1) / this.episode.hz : 0; }

    restyle() { this.colour = colours(); }

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
      const { q } = bodies(wanted, 0)[this.trunkBody()];
      this.heading = yawOf(q);
      this.scrub.max = String(Math.max(wanted.frames - 1, 1));
      this.mark();
      this.cards.forEach((c, i) => c.setAttribute("aria-pressed", String(i === k)));
      if (this.cards[k]) {
        this.root.querySelector(".caption").textContent =
          this.cards[k].dataset.caption + (wanted.terrain.missing ? "; the terrain is not in the trace and is drawn flat" : "");
        this.reveal(this.cards[k]);
      }
      this.root.dataset.ready = "true";
      this.draw();
    }

    // Brings a card into sight within its list, without moving the page.
    reveal(card) {
      card.hidden = false;
      const list = card.parentElement, a = card.getBoundingClientRect(), b = list.getBoundingClientRect();
      if (a.top < b.top || a.bottom > b.bottom) list.scrollTop += a.top - b.top - (b.height - a.height) / 2;
      if (a.left < b.left || a.right > b.right) list.scrollLeft += a.left - b.left - (b.width - a.width) / 2;
    }

    // Shows an evaluation of training, or the result.
    async stop(k) {
      const stop = this.stops[k], slider = this.root.querySelector(".stop");
      if (slider) {
        slider.value = String(k);
        slider.setAttribute("aria-valuetext", `${stop.name}, ${stop.rate} succeeded`);
        this.root.querySelector(".learn output").textContent = `${stop.name}: ${stop.rate} succeeded`;
        this.root.querySelectorAll(".learn li").forEach((tick, i) => tick.classList.toggle("on", i === k));
      }
      this.root.querySelector(".caption").textContent = stop.says;
      await this.choose(stop.episode);
    }

    trunkBody() { return this.data.robot.shapes.find((s) => s.part === "trunk")?.body ?? 0; }

    // Pushes and changes of the command, on the slider.
    mark() {
      const marks = this.root.querySelector(".marks");
      marks.replaceChildren(...this.episode.events.map((event) => {
        const mark = document.createElement("button"), says = `${event.text} at ${event.t.toFixed(1)} s`;
        Object.assign(mark, { type: "button", className: `mark ${event.kind}` });
        mark.dataset.tip = says;
        mark.setAttribute("aria-label", `Go to: ${says}`);
        mark.style.left = `${(100 * event.t) / (this.length || 1)}%`;
        mark.addEventListener("click", () => this.seek(Math.max(event.t - 0.3, 0)));
        return mark;
      }));
    }

    seek(time) {
      this.time = Math.min(Math.max(time, 0), this.length);
      this.draw();
    }
    step(frames) {
      if (this.playing) this.toggle();
      this.seek((Math.round(this.time * this.episode.hz) + frames) / this.episode.hz);
    }

    controls() {
      const $ = (s) => this.root.querySelector(s);
      this.play = $(".play");
      this.scrub = $(".scrub");
      this.clock = $(".clock");
      this.loop = $(".loop");
      this.play.addEventListener("click", () => this.toggle());
      this.loop.addEventListener("click", () => this.loop.setAttribute("aria-pressed", String(!this.loops)));
      this.scrub.addEventListener("input", () => this.seek(this.scrub.value / this.episode.hz));
      this.cards.forEach((c) => c.addEventListener("click", () => this.choose(Number(c.dataset.episode))));
      const filters = [...this.root.querySelectorAll(".filters button")];
      filters.forEach((button) => button.addEventListener("click", () => {
        const { show } = button.dataset, fits = (c) => show === "all" || c.classList.contains("good") === (show === "good");
        filters.forEach((b) => b.setAttribute("aria-pressed", String(b === button)));
        this.cards.forEach((c) => { c.hidden = !fits(c); });
        const first = this.cards.findIndex(fits), now = this.cards.find((c) => c.getAttribute("aria-pressed") === "true");
        if (first >= 0 && (!now || !fits(now))) this.choose(first);
      }));
      $(".stop")?.addEventListener("input", (event) => this.stop(Number(event.target.value)));
      this.root.querySelectorAll(".plot").forEach((plot) => {
        const seek = (event) => {
          if (event.type === "pointermove" && !event.buttons) return;
          const box = plot.getBoundingClientRect(), [left, right] = margins;
          this.seek(((event.clientX - box.left - left) / (box.width - left - right)) * this.length);
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
      // The wheel scrolls the page until the picture has been clicked; a pinch always zooms.
      this.canvas.addEventListener("wheel", (event) => {
        if (!event.ctrlKey && document.activeElement !== this.canvas) return;
        event.preventDefault();
        this.zoom(Math.exp(event.deltaY * 0.001));
      }, { passive: false });
      this.root.addEventListener("keydown", (event) => this.key(event));
    }

    key(event) {
      const { key, target, shiftKey, ctrlKey, altKey, metaKey } = event;
      if (ctrlKey || altKey || metaKey || !this.episode || target.matches("select, .stop")) return;
      const turn = { ArrowLeft: [-24, 0], ArrowRight: [24, 0], ArrowUp: [0, -24], ArrowDown: [0, 24] }[key];
      const step = { ArrowLeft: -1, ArrowRight: 1 }[key];
      if (shiftKey && turn) this.orbit(...turn);
      else if (step) this.step(step);
      else if (key === " " && !target.matches("button")) this.toggle();
      else if (key === "Home" || key === "End") this.seek(key === "Home" ? 0 : this.length);
      else if (key === "l" || key === "L") this.loop.click();
      else if (key === "+") this.zoom(0.9);
      else if (key === "-") this.zoom(1.1);
      else return;
      event.preventDefault();
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

    get loops() { return this.loop.getAttribute("aria-pressed") === "true"; }

    toggle() {
      this.playing = !this.playing;
      this.play.textContent = this.playing ? "❚❚" : "▶";
      if (!this.playing || !this.episode) return;
      if (this.time >= this.length - 1e-6) this.time = 0;
      let before = performance.now(), rested = 0;
      const tick = (now) => {
        if (!this.playing) return;
        const passed = Math.min((now - before) / 1000, 0.25);
        before = now;
        if (this.visible && this.time >= this.length) {
          rested += passed;
          if (!this.loops) return void this.toggle();
          if (rested > REST_S) this.time = rested = 0;
        } else if (this.visible) {
          this.time = Math.min(this.time + passed * Number(this.root.querySelector(".speed").value), this.length);
          this.draw();
        }
        requestAnimationFrame(tick);
      };
      requestAnimationFrame(tick);
    }

    draw() {
      if (!this.episode) return;
      this.scrub.value = String(this.time * this.episode.hz);
      this.clock.textContent = `${this.time.toFixed(2)} s`;
      if (this.canvas.clientWidth) this.paint();
      this.root.querySelectorAll(".plot").forEach((plot) => this.curve(plot));
    }

    paint() {
      const { canvas, ctx } = this, ratio = Math.min(devicePixelRatio || 1, 2);
      const width = Math.round(canvas.clientWidth * ratio), height = Math.round(canvas.clientHeight * ratio);
      if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
      const scene = this.scene(width / Math.max(height, 1));
      thePainter().paint(scene, ctx, width, height, this.colour);
      ctx.font = `600 ${12 * ratio}px system-ui, sans-serif`;
      ctx.textAlign = "center";
      for (const { p, text, colour } of scene.words) {
        const [x, y] = project(scene.camera, p, width, height), half = ctx.measureText(text).width / 2 + 6 * ratio;
        const at = [Math.min(Math.max(x, half), width - half), Math.min(Math.max(y, 18 * ratio), height - 12 * ratio)];
        ctx.lineWidth = 4 * ratio;
        ctx.lineJoin = "round";
        ctx.strokeStyle = `rgb(${this.colour.sky.map((v) => 255 * v).join(" ")})`;
        ctx.fillStyle = `rgb(${colour.map((v) => 255 * v).join(" ")})`;
        ctx.strokeText(text, ...at);
        ctx.fillText(text, ...at);
      }
    }

    scene(aspect) {
      const e = this.episode, all = bodies(e, this.time), { robot } = this.data, c = this.colour;
      const trunk = all[this.trunkBody()], { height } = robot, ground = e.ground ? e : null;
      // The camera follows over the ground and, on terrain, in height: falls must be seen to fall.
      const at = [trunk.p[0], trunk.p[1], 0.62 * height + (ground ? trunk.p[2] - height : 0)];
      const { pitch, distance } = this.view, yaw = this.view.yaw + this.heading;
      const eye = [at[0] + distance * Math.cos(pitch) * Math.cos(yaw), at[1] + distance * Math.cos(pitch) * Math.sin(yaw), Math.max(at[2] + distance * Math.sin(pitch), at[2] + 0.05)];
      const solids = robot.shapes.map((s) => {
        const b = all[s.body], part = c[s.part] || c.leg;
        return { kind: s.kind, q: turn(b.q, s.quaternion), p: plus(b.p, rotate(b.q, s.position)), size: s.size, colour: part, flatly: 0, casts: true };
      });
      const words = [], width = 0.036 * height, above = plus(trunk.p, [0, 0, 0.75 * height]), now = yawOf(trunk.q);
      const ahead = (x, y) => [x, y].map((_, i) => 1.5 * height * (i ? x * Math.sin(now) + y * Math.cos(now) : x * Math.cos(now) - y * Math.sin(now))).concat(0);
      [[0, 2, 4, c.commanded], [1, 3, 5, c.achieved]].forEach(([x, y, wz, colour], i) => {
        const from = plus(above, [0, 0, 2.6 * width * (1 - i)]);
        solids.push(...arrow(from, ahead(signal(e, this.time, x), signal(e, this.time, y)), width, colour));
        solids.push(...arc(from, (0.8 + 0.12 * i) * height, now, signal(e, this.time, wz), 0.7 * width, colour));
      });
      for (const event of e.events) {
        const since = this.time - event.t;
        if (event.kind !== "push" || since < -PUSH_S[0] || since > PUSH_S[1]) continue;
        // It arrives at the trunk: the tip is at its surface, and stays where the push hit.
        const way = [...event.v, 0], tip = plus(trunk.p, unit(way), -0.35 * height), tail = plus(tip, way, -2.2 * height);
        solids.push(...arrow(tail, minus(tip, tail), 1.5 * width, c.pushed));
        words.push({ p: plus(tail, [0, 0, 0.16 * height]), text: event.text, colour: c.pushed });
      }
      const camera = times(perspective(FIELD, aspect, 0.05, 60), lookAt(eye, at));
      return { eye, at, camera, middle: trunk.p, reach: 2.6 * height + 0.2, ground, height, solids, words };
    }

    curve(plot) {
      const e = this.episode, kind = plot.dataset.plot, { values, columns } = e.signal;
      const pick = { vx: [0, 1], vy: [2, 3], wz: [4, 5], tilt: [6], torque: e.signals.torque ? [7] : [] }[kind];
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
        ctx.strokeStyle = colour(pick.length > 1 ? ["commanded", "achieved"][i] : kind === "tilt" ? "c2" : "c7");
        ctx.beginPath();
        for (let t = 0; t < e.frames; t++) ctx.lineTo(x(t), y(values[t * columns + k] * scale));
        ctx.stroke();
      });
      ctx.lineWidth = 1;
      for (const event of e.events) {
        ctx.strokeStyle = colour(event.kind === "push" ? "pushed" : "soft");
        ctx.setLineDash([3, 3]);
        ctx.beginPath();
        ctx.moveTo(x(event.t * e.hz), 0);
        ctx.lineTo(x(event.t * e.hz), h);
        ctx.stroke();
      }
      ctx.setLineDash([]);
      ctx.strokeStyle = colour("ink");
      const now = x(this.time * e.hz);
      ctx.beginPath();
      ctx.moveTo(now, 0);
      ctx.lineTo(now, h);
      ctx.stroke();
    }
  }
  const margins = [42, 6, 8, 8]; // of a plot: left, right, top, bottom

  const yawOf = (q) => Math.atan2(2 * (q[0] * q[3] + q[1] * q[2]), 1 - 2 * (q[2] ** 2 + q[3] ** 2));

  // A player starts when its block first comes into view, and rests while it is out of it.
  const start = (root) => (root.player ??= new Player(root));
  const seen = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries)
      if (isIntersecting) start(target).visible = true;
      else if (target.player) target.player.visible = false;
  }, { rootMargin: "100px" });
  document.querySelectorAll(".replay").forEach((root) => seen.observe(root));

  // An address that ends in #episode-... shows that episode.
  function follow() {
    const card = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    const root = card?.matches(".episode") && card.closest(".replay");
    if (!root) return;
    for (let d = root.closest("details"); d; d = d.parentElement.closest("details")) d.open = true;
    start(root).choose(Number(card.dataset.episode));
    root.scrollIntoView({ block: "start" });
  }
  addEventListener("hashchange", follow);
  follow();
})();
