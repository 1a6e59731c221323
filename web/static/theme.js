// The reader's choice of light or dark, set before anything is drawn. Without a choice the system's setting holds.
(() => {
  let theme = null;
  try {
    theme = localStorage.getItem("barnabas.theme");
  } catch {
    // a browser that keeps nothing: the system's setting holds
  }
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
})();
