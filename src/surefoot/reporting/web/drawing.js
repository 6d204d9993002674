// Draws scenes of solid shapes on a ground. All pictures of a page come from one WebGL context and are copied to
// where they are shown; where there is no WebGL the same shapes are drawn flat.
const Drawing = (() => {
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
    uniform float grid, flatly; uniform vec4 dark_in; uniform mat4 light; uniform sampler2D outline;
    void main() {
      vec3 n = normalize(normal); float lit = max(dot(n, sun), 0.0);
      vec3 c = colour * mix(grid > 0.5 ? 0.36 + 0.12 * n.z + 0.63 * lit : 0.62 + 0.16 * n.z + 0.36 * lit, 1.0, flatly);
      if (grid > 0.5) {
        vec2 edge = abs(fract(world.xy * 2.0 - 0.5) - 0.5) / 2.0; float d = length(world - middle);
        float width = 0.004 + 0.0035 * d; float on = 1.0 - smoothstep(width * 0.4, width, min(edge.x, edge.y));
        c = mix(c, line, on * 0.75);
        vec2 at = (light * vec4(world, 1.0)).xy * 0.5 + 0.5; float dark = 0.0;
        if (all(greaterThan(at, dark_in.xy)) && all(lessThan(at, dark_in.zw))) // elsewhere 25 look-ups would find nothing
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
      for (const name of ["model", "camera", "turned", "colour", "line", "sky", "middle", "sun", "grid", "flatly", "dark_in", "light"])
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
      gl.uniform4fv(at.dark_in, casting(scene, light));
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
      const [i, j] = [0, 1].map((k) => Math.round(2 * scene.at[k]) / 2), ahead = unit(minus(scene.at, scene.eye));
      for (let a = -4; a <= 4; a += 0.5)
        for (let b = -4; b < 4; b += 0.5)
          for (const line of [[[i + a, j + b, floor], [i + a, j + b + 0.5, floor]], [[i + b, j + a, floor], [i + b + 0.5, j + a, floor]]])
            if (line.every((p) => dot(minus(p, scene.eye), ahead) > 0.2)) { path(line); ctx.stroke(); }
      const outline = ({ kind, q, p, size }, move) => {
        if (kind === "box" || kind === "cone") {
          const corners = kind === "cone" ? [[0, 0, size[1]]] : [];
          for (let k = 0; k < 8; k++) {
            const angle = (k * Math.PI) / 4, signs = [1, 2, 4].map((bit) => (k & bit ? 1 : -1));
            corners.push(kind === "cone" ? [size[0] * Math.cos(angle), size[0] * Math.sin(angle), -size[1]] : signs.map((s, n) => s * size[n]));
          }
          ctx.beginPath();
          hull(corners.map((c) => see(move(plus(p, rotate(q, c)))))).forEach((c) => ctx.lineTo(...c));
          ctx.closePath();
          ctx.lineWidth = 1;
        } else {
          const half = ["sphere", "ellipsoid"].includes(kind) ? 1e-4 : size[1], along = rotate(q, [0, 0, half]);
          path([move(minus(p, along)), move(plus(p, along))]);
          ctx.lineWidth = Math.max(2 * (kind === "ellipsoid" ? Math.min(...size) : size[0]) * thick(p), 1);
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
  // Where on the outline something casts a shadow: the rectangle around all that does, within its edge.
  function casting({ solids, reach }, light) {
    const box = [0.99, 0.99, 0.01, 0.01], blur = 4 / SHADOW;
    for (const s of solids) if (s.casts)
      for (const r of [0, 1]) {
        const at = (light[r] * s.p[0] + light[4 + r] * s.p[1] + light[8 + r] * s.p[2] + light[12 + r] + 1) / 2;
        const far = s.size.reduce((a, b) => a + b) / reach / 2 + blur;
        box[r] = Math.max(Math.min(box[r], at - far), 0.01);
        box[2 + r] = Math.min(Math.max(box[2 + r], at + far), 0.99);
      }
    return box;
  }
  function project(camera, p, width, height) {
    const at = [0, 1, 3].map((r) => camera[r] * p[0] + camera[4 + r] * p[1] + camera[8 + r] * p[2] + camera[12 + r]);
    return [((at[0] / at[2] + 1) / 2) * width, ((1 - at[1] / at[2]) / 2) * height];
  }

  let painter = null;
  function paint(scene, ctx, width, height, colour) {
    if (!painter)
      try { painter = new Painter(); } catch (error) { painter = new FlatPainter(); }
    painter.paint(scene, ctx, width, height, colour);
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

  return { FIELD, arrow, colours, lookAt, minus, paint, perspective, plus, project, rotate, times, turn, unit };
})();
