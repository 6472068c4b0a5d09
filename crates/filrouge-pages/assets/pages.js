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
// Conversation
(() => {
  const conversation = document.getElementById("conversation");
  if (!conversation) return;
  const root = document.documentElement;

  // Shows the item that the address names, also in a folded block.
  function reveal() {
    if (!location.hash.startsWith("#seq-")) return;
    const item = document.getElementById(location.hash.slice(1));
    for (let block = item?.closest("details"); block; block = block.parentElement.closest("details")) {
      block.open = true;
    }
    item?.scrollIntoView({ behavior: "instant" });
  }
  addEventListener("hashchange", reveal);
  reveal();

  // A link to an item that is on the page needs no other part.
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[href*='#seq-']");
    const isPlain = event.button === 0 && !event.ctrlKey && !event.metaKey && !event.shiftKey;
    if (!link || !isPlain || link.pathname !== location.pathname) return;
    if (!document.getElementById(link.hash.slice(1))) return;
    event.preventDefault();
    history.pushState(null, "", link.href);
    location.hash = link.hash;
    reveal();
  });

  // A part that is inserted above the reader must not move what is read.
  let kept = null;
  document.body.addEventListener("htmx:beforeSwap", (event) => {
    const next = event.detail.target.matches(".more.earlier") && event.detail.target.nextElementSibling;
    kept = next && { next, top: next.getBoundingClientRect().top };
  });
  document.body.addEventListener("htmx:afterSwap", () => {
    if (kept) scrollBy({ top: kept.next.getBoundingClientRect().top - kept.top, behavior: "instant" });
    kept = null;
  });

  const address = conversation.dataset.live;
  const state = document.querySelector(".live-state");
  if (!address || !state) return;
  let source = null;
  // The drafts by the keys of the items that they become.
  const drafts = new Map();

  function show(name) {
    state.hidden = false;
    if (state.dataset.state === name) return;
    state.dataset.state = name;
    state.textContent = state.dataset[name];
  }
  const isAtEnd = () => innerHeight + scrollY >= root.scrollHeight - 80;
  addEventListener("scroll", () => {
    if (state.dataset.state === "new" && isAtEnd()) show("live");
  }, { passive: true });

  // Changes the end of the page. A reader who is there stays there; nobody else is moved.
  function grow(change) {
    const stays = isAtEnd();
    change();
    if (stays) scrollTo({ top: root.scrollHeight, behavior: "instant" });
    else show("new");
  }
  function clearDrafts() {
    for (const draft of drafts.values()) draft.remove();
    drafts.clear();
  }

  // Replaces the calls on the page that a new item answers; they contain its results. What is open stays open.
  function replaceAnswered(box) {
    for (const item of box.querySelectorAll(":scope > .answered > .item")) {
      const known = document.getElementById(item.id);
      if (!known) continue;
      const calls = known.querySelectorAll("details.call");
      item.querySelectorAll("details.call").forEach((call, at) => { call.open = calls[at]?.open === true; });
      known.replaceWith(item);
    }
  }

  function addItem(end, data) {
    const template = document.createElement("template");
    template.innerHTML = data;
    const box = template.content.firstElementChild;
    const { seq, item, turn, status, bad } = box.dataset;
    if (document.getElementById(`seq-${seq}`)) return;
    drafts.get(item)?.remove();
    drafts.delete(item);
    conversation.querySelector(":scope > .empty")?.remove();
    const section = box.firstElementChild;
    replaceAnswered(box);
    const sections = conversation.querySelectorAll(":scope > .turn");
    const last = sections[sections.length - 1];
    if (document.getElementById(`seq-${seq}`)) {
      // It is shown below its call.
    } else if (turn && last?.dataset.turn === turn) {
      const items = section.querySelectorAll(":scope > .item, :scope > details > .item");
      (last.querySelector(":scope > details") || last).append(...items);
    } else {
      if (turn && document.getElementById(section.id)) section.removeAttribute("id");
      end.before(section);
    }
    for (const known of sections) {
      const pill = known.dataset.turn === turn && known.querySelector(".turn-head .pill");
      if (!pill) continue;
      pill.textContent = status;
      pill.classList.toggle("bad", bad === "true");
    }
    for (const draft of drafts.values()) end.before(draft);
    end.dataset.last = seq;
  }

  function addDraft(end, data) {
    let article = drafts.get(data.item_id);
    if (!article) {
      article = document.createElement("article");
      article.className = "item draft partial";
      const role = document.createElement("span");
      role.className = "role";
      role.textContent = data.agent || data.role;
      const header = document.createElement("header");
      header.append(role);
      article.append(header);
      drafts.set(data.item_id, article);
      end.before(article);
    }
    let part = [...article.children].find((one) => one.dataset.part === String(data.part));
    if (!part) {
      part = document.createElement("pre");
      part.className = "plain";
      part.dir = "auto";
      part.dataset.part = data.part;
      article.append(part);
    }
    if (data.offset === 0) part.textContent = data.name ? `${data.name} ` : "";
    part.append(data.text);
  }

  // The stream has ended permanently: the reader must sign in again, the session is gone, or the server does not answer.
  async function retry(end) {
    show("lost");
    const response = await fetch(`${address.replace(/live$/, "part")}?after=${end.dataset.last}`).catch(() => null);
    if (response?.status === 401) return location.reload();
    if (response?.status === 404 || response?.status === 410) return show("ended");
    setTimeout(follow, 3000);
  }

  // Follows the session once the page shows its end.
  function follow() {
    const end = conversation.querySelector(":scope > .end");
    if (source || !end) return;
    show("connecting");
    source = new EventSource(`${address}?after=${end.dataset.last}`);
    source.addEventListener("open", () => {
      clearDrafts();
      show("live");
    });
    source.addEventListener("item", (event) => grow(() => addItem(end, event.data)));
    source.addEventListener("draft", (event) => grow(() => addDraft(end, JSON.parse(event.data))));
    source.addEventListener("reload", () => location.reload());
    source.addEventListener("erased", () => location.reload());
    source.addEventListener("error", () => {
      show("lost");
      if (source.readyState !== EventSource.CLOSED) return;
      source = null;
      retry(end);
    });
  }
  document.body.addEventListener("htmx:afterSettle", follow);
  follow();
})();
// End of Conversation
// Operations: a notice says that the server does not answer, until a part is loaded again.
document.addEventListener("htmx:afterRequest", (event) => {
  const notice = document.getElementById("operations-lost");
  if (notice) notice.hidden = event.detail.successful === true;
});
