// Tooltips: words and rows by [data-tip], charts by the nearest x of [data-tips].
(() => {
  "use strict";
  const tip = document.getElementById("tip");
  let chart = null;

  function show(text, x, y) {
    tip.textContent = text;
    tip.classList.add("on");
    const box = tip.getBoundingClientRect();
    const left = Math.min(Math.max(8, x - box.width / 2), innerWidth - box.width - 8);
    const above = y - box.height - 14;
    tip.style.transform = `translate(${left}px, ${above > 6 ? above : y + 20}px)`;
  }

  function hide() {
    tip.classList.remove("on");
    if (chart) chart.classList.remove("on");
    chart = null;
  }

  function onChart(svg, event) {
    if (chart && chart !== svg) chart.classList.remove("on");
    chart = svg;
    svg.points ??= JSON.parse(svg.dataset.tips);
    if (!svg.points.length) return;
    const box = svg.getBoundingClientRect();
    const scale = svg.viewBox.baseVal.width / box.width;
    const x = (event.clientX - box.left) * scale;
    const best = svg.points.reduce((a, b) => (Math.abs(b[0] - x) < Math.abs(a[0] - x) ? b : a));
    const cursor = svg.querySelector(".cursor");
    cursor.setAttribute("x1", best[0]);
    cursor.setAttribute("x2", best[0]);
    svg.classList.add("on");
    show(best.slice(1).join("\n"), box.left + best[0] / scale, Math.max(box.top + 30, 60));
  }

  function onMove(event) {
    const target = event.target instanceof Element ? event.target : null;
    const svg = target && target.closest("svg[data-tips]");
    if (svg) return onChart(svg, event);
    const said = target && target.closest("[data-tip]");
    if (!said) return hide();
    if (chart) chart.classList.remove("on");
    const box = said.getBoundingClientRect();
    show(said.dataset.tip, event.clientX, box.top);
  }

  document.addEventListener("pointermove", onMove);
  document.addEventListener("pointerdown", onMove);
  document.addEventListener("pointerleave", hide);
  document.addEventListener("scroll", hide, { passive: true });
  document.addEventListener("keydown", (event) => event.key === "Escape" && hide());
  document.addEventListener("focusin", (event) => {
    const said = event.target.closest("[data-tip]");
    if (!said || !said.matches(":focus-visible")) return;
    const box = said.getBoundingClientRect();
    show(said.dataset.tip, box.left + box.width / 2, box.top);
  });
  document.addEventListener("focusout", hide);
})();

// Contents: the section that is being read is marked, and brought into sight where the list is wider than the page.
(() => {
  "use strict";
  const nav = document.querySelector(".contents");
  if (!nav) return;
  const links = [...nav.querySelectorAll("a")];
  const parts = links.map((a) => document.getElementById(a.hash.slice(1)));
  let now = null, waits = false;

  function mark() {
    waits = false;
    const ended = innerHeight + scrollY >= document.documentElement.scrollHeight - 4;
    let k = 0;
    parts.forEach((part, i) => part && part.getBoundingClientRect().top < nav.offsetHeight + 40 && (k = i));
    if (ended) k = links.length - 1;
    if (links[k] === now) return;
    now?.removeAttribute("aria-current");
    now = links[k];
    now.setAttribute("aria-current", "true");
    nav.scrollTo({ left: now.offsetLeft - (nav.clientWidth - now.offsetWidth) / 2 });
  }

  addEventListener("scroll", () => !waits && ((waits = true), requestAnimationFrame(mark)), { passive: true });
  addEventListener("resize", mark);
  addEventListener("hashchange", () => {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    for (let d = target?.closest("details"); d; d = d.parentElement.closest("details")) d.open = true;
  });
  mark();
})();
