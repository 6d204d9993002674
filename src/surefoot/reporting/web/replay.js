// The replay: body poses come from the page's data, this file interpolates between them and draws the shapes.
(() => {
  "use strict";
  const { FIELD, arrow, colours, lookAt, minus, paint, perspective, plus, project, rotate, times, turn, unit } = Drawing;

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
      this.view = { yaw: 1.2, pitch: 0.3, distance: Math.max(0.75, (this.stops.length ? 5 : 5.6) * this.data.robot.height) };
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
        Object.assign(mark, { type: "button", className: `event ${event.kind}` });
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
      if (!this.episode) return;
      this.playing = !this.playing;
      this.play.textContent = this.playing ? "❚❚" : "▶";
      if (!this.playing) return;
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
      paint(scene, ctx, width, height, this.colour);
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
      const ahead = (x, y) => [x * Math.cos(now) - y * Math.sin(now), x * Math.sin(now) + y * Math.cos(now), 0].map((v) => 1.5 * height * v);
      [[0, 2, c.commanded], [1, 3, c.achieved]].forEach(([x, y, colour], i) => {
        const from = plus(above, [0, 0, 3 * width * (1 - i)]);
        solids.push(...arrow(from, ahead(signal(e, this.time, x), signal(e, this.time, y)), width, colour));
      });
      for (const event of e.events) {
        const since = this.time - event.t;
        if (event.kind !== "push" || since < -PUSH_S[0] || since > PUSH_S[1]) continue;
        // It ends at the trunk's upper edge, where the trunk does not hide a push from behind.
        const way = [...event.v, 0], tip = plus(plus(trunk.p, unit(way), -0.3 * height), [0, 0, 0.3 * height]), tail = plus(tip, way, -3 * height);
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
    const card = document.getElementById(location.hash.slice(1));
    const root = card?.matches(".episode") && card.closest(".replay");
    if (!root) return;
    for (let d = root.closest("details"); d; d = d.parentElement.closest("details")) d.open = true;
    start(root).choose(Number(card.dataset.episode)).then(() => root.scrollIntoView({ block: "start" }));
  }
  addEventListener("hashchange", follow);
  addEventListener("load", () => setTimeout(follow)); // after the browser has gone to the card by itself
})();
