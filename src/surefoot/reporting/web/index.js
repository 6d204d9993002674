// The table of runs: sort by a column, enable the comparison from two runs on.
(() => {
  "use strict";
  const table = document.querySelector(".runs");
  if (!table) return;
  const body = table.tBodies[0], go = document.querySelector(".go");

  table.querySelectorAll("[data-sort]").forEach((button) =>
    button.addEventListener("click", () => {
      const head = button.parentElement, column = head.cellIndex, numeric = button.dataset.sort === "number";
      const down = head.getAttribute("aria-sort") === (numeric ? "descending" : "ascending") ? !numeric : numeric;
      table.querySelectorAll("th").forEach((th) => th.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const key = (row) => {
        const cell = row.cells[column];
        if (!cell) return null;
        return numeric ? (cell.dataset.value ? Number(cell.dataset.value) : null) : cell.textContent;
      };
      const rows = [...body.rows].sort((a, b) => {
        const x = key(a), y = key(b);
        if (x === null || y === null) return (x === null) - (y === null); // what was not measured stays below
        const order = numeric ? x - y : x.localeCompare(y);
        return down ? -order : order;
      });
      body.append(...rows);
    })
  );

  // While a run trains the page loads itself again, but not under a reader's hands.
  const after = Number(document.body.dataset.refresh);
  if (after)
    setInterval(() => {
      if (!document.hidden && !table.querySelector("input:checked")) location.reload();
    }, 1000 * after);

  const count = () => (go.disabled = table.querySelectorAll("input:checked").length < 2);
  table.addEventListener("change", count);
  count();
})();
