// Draws interactive figures when they come into view; plotly is loaded with the first of them.
(() => {
  const plotly = new URL("plotly.min.js", document.currentScript.src);
  let loading;

  function loaded() {
    loading ??= new Promise((done, failed) => {
      const script = document.createElement("script");
      script.onload = done;
      script.onerror = failed;
      script.src = plotly;
      document.head.append(script);
    });
    return loading;
  }

  async function draw(view) {
    await loaded();
    const script = document.createElement("script");
    script.textContent = view.textContent;
    const figure = view.closest("[role=figure]");
    view.replaceWith(script);
    figure?.querySelector(".headbook-still")?.remove();
  }

  const views = new Map();
  const seen = new IntersectionObserver(
    (entries) => {
      for (const entry of entries.filter((each) => each.isIntersecting)) {
        seen.unobserve(entry.target);
        draw(views.get(entry.target));
      }
    },
    { rootMargin: "200px" },
  );
  for (const view of document.querySelectorAll("script.headbook-view")) {
    const place = view.closest("[role=figure]") ?? view.parentElement;
    views.set(place, view);
    seen.observe(place);
  }
})();
