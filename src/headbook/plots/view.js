(() => {
  const root = document.currentScript.closest(".headbook-view");
  const draw = (maps) => {
    const row = maps.closest(".beside"), input = maps.querySelector("input:checked"), least = +maps.dataset.least;
    const roots = Uint8Array.from(atob(input.dataset.roots), (each) => each.charCodeAt(0));
    const groups = [...row.querySelectorAll("svg g[tabindex]")];
    const keys = [...row.querySelectorAll("svg text[text-anchor=start]")].map((each) => each.textContent);
    groups.forEach((group, word) => {
      const weights = [...roots.slice(word * keys.length, (word + 1) * keys.length)].map((each) => (each / 255) ** 2);
      group.querySelectorAll("path").forEach((line, key) => {
        const weight = weights[key] < least ? 0 : weights[key];
        line.setAttribute("stroke-width", weight && __THIN__ + __THICK__ * weight);
        line.setAttribute("opacity", __FAINT__ + (1 - __FAINT__) * weight);
      });
      const best = keys.map((key, at) => [weights[at], key]).sort((a, b) => b[0] - a[0]).filter((each, at) => !at || each[0] >= least);
      const looked = best.slice(0, 6).map(([weight, key]) => `${key} ${(100 * weight).toFixed(0)} %`).join(", ");
      group.querySelector("title").textContent = `${group.querySelector("text").textContent} → ${looked}`;
    });
    row.querySelector(".said b").textContent = input.value;
  };
  root.querySelectorAll(".maps input").forEach((input) => { input.disabled = false; });
  root.addEventListener("change", ({ target }) => {
    if (!target.closest(".maps")) return;
    /* The views of other sentences in the same tabs show the same head. */
    for (const maps of (root.closest(".hb-tabs") ?? root).querySelectorAll(".maps")) {
      const same = maps.querySelector(`input[value="${target.value}"]`);
      if (same) { same.checked = true; draw(maps); }
    }
  });
})();
