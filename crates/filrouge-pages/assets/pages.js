// When a sign-in has ended, parts of pages cannot be loaded: the whole page is, and shows the form to sign in.
document.addEventListener("htmx:responseError", (event) => {
  if (event.detail.xhr.status === 401) location.reload();
});

// Sessions: keys that focus the search, move among the rows, and show the keys. Not while somebody types.
{
  const dialog = () => document.getElementById("keys");
  const showButton = document.getElementById("show-keys");
  if (showButton) {
    showButton.hidden = false;
    showButton.addEventListener("click", () => dialog().showModal());
  }

  const focusRow = (step) => {
    const rows = [...document.querySelectorAll("#rows > .row")];
    const current = rows.findIndex((row) => row.contains(document.activeElement));
    const next = current < 0 ? 0 : Math.min(Math.max(current + step, 0), rows.length - 1);
    rows[next]?.querySelector("a.open").focus();
  };

  const actions = {
    "/": () => document.querySelector("[role=searchbox]").focus(),
    "j": () => focusRow(1),
    "k": () => focusRow(-1),
    "?": () => dialog().showModal(),
  };

  document.addEventListener("keydown", (event) => {
    const isTyping = event.target.closest?.("input, textarea, select, dialog, [contenteditable]");
    const action = actions[event.key];
    if (!action || !dialog() || isTyping || event.isComposing || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    action();
  });
}
