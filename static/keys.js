// Keys, copying, and the reader's zone. Every page works without it.
(() => {
  "use strict";
  const $ = (selector, root = document) => root.querySelector(selector);
  document.documentElement.classList.add("js");

  for (const input of document.querySelectorAll("input[name=zone_name]")) {
    input.value = Intl.DateTimeFormat().resolvedOptions().timeZone || "";
  }

  const say = (text) => {
    const toast = $("#toast");
    if (!toast) return;
    toast.firstElementChild.textContent = text;
    toast.hidden = false;
    clearTimeout(say.timer);
    say.timer = setTimeout(() => { toast.hidden = true; }, 4000);
  };

  const copyText = async (text) => {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const area = Object.assign(document.createElement("textarea"), { value: text });
      document.body.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
    }
  };

  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy]");
    if (button) {
      event.preventDefault();
      await copyText(button.dataset.copy);
      say((button.title || "Copy").replace(/^Copy/, "Copied"));
      return;
    }
    for (const menu of document.querySelectorAll("details.menu[open]")) {
      if (!menu.contains(event.target)) menu.open = false;
    }
    const row = event.target.closest("tr[data-href]");
    if (row && !event.target.closest("a, button, input, label, summary")) {
      if (!String(getSelection())) location.assign(row.dataset.href);
    }
  });

  // What an ellipsis cuts is whole in a title.
  document.addEventListener("pointerover", ({ target }) => {
    for (let box = target; box?.closest(".data, .tag, .facts"); box = box.parentElement) {
      if (box.title) return;
      if (box.scrollWidth > box.clientWidth && box.matches("td, th, td *, th *, .tag, dd")) {
        box.title = box.innerText;
        return;
      }
    }
  });

  document.addEventListener("change", (event) => {
    const form = event.target.closest("form[data-send-on-change]");
    if (form) form.requestSubmit();
  });

  // Empty fields do not belong in an address.
  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (form.method !== "get" || !form.hasAttribute("data-tidy")) return;
    for (const field of form.elements) {
      if (field.name && !field.value) field.disabled = true;
    }
    setTimeout(() => { for (const field of form.elements) field.disabled = false; });
  });

  const rows = () => [...document.querySelectorAll("table[data-rows] tbody tr")].filter((row) => $("a", row));
  const step = (by) => {
    const all = rows();
    if (!all.length) return;
    const at = all.findIndex((row) => row.contains(document.activeElement));
    const next = all[Math.min(all.length - 1, Math.max(0, at < 0 ? (by > 0 ? 0 : all.length - 1) : at + by))];
    $("a", next).focus();
    next.scrollIntoView({ block: "nearest" });
  };
  // In a grid, arrow keys move to the next link of the row, and to the same column of another row.
  const turn = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
  const move = (link, [down, right]) => {
    const cell = link.closest("td, th");
    const row = cell.parentElement;
    for (let at = cell.cellIndex + right, line = row; line; at += right) {
      line = down < 0 ? line.previousElementSibling : down > 0 ? line.nextElementSibling : line;
      if (!line?.cells[at]) return;
      const next = $("a", line.cells[at]);
      if (next) {
        next.focus();
        next.scrollIntoView({ block: "nearest", inline: "nearest" });
        return;
      }
    }
  };
  const follow = (selector) => {
    const link = $(selector);
    if (link) link.click();
    return Boolean(link);
  };
  const go = { o: "overview", t: "tables", c: "conflicts", j: "jobs" };
  const typing = (target) => target.closest("input, select, textarea, [contenteditable]");
  let afterG = 0;

  document.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      const form = event.target.closest("form[data-send-by-key]");
      if (form) form.requestSubmit();
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape") {
      const toast = $("#toast");
      if (toast) toast.hidden = true;
      if (typing(event.target)) event.target.blur();
      return;
    }
    if (typing(event.target)) return;
    const key = event.key;
    const link = turn[key] && event.target.closest("table[data-grid] a");
    if (link) {
      event.preventDefault();
      move(link, turn[key]);
      return;
    }
    if (Date.now() - afterG < 1200 && go[key]) {
      afterG = 0;
      event.preventDefault();
      follow(`[data-go="${go[key]}"]`);
      return;
    }
    afterG = key === "g" ? Date.now() : 0;
    const act = {
      "/": () => $("#search")?.focus(),
      "?": () => $("#keys")?.togglePopover?.(),
      j: () => step(1),
      k: () => step(-1),
      "[": () => follow("[data-key=previous]"),
      "]": () => follow("[data-key=next]"),
      d: () => follow("[data-key=diff]"),
      n: () => follow("[data-key=new]"),
    }[key];
    if (act) {
      event.preventDefault();
      act();
    }
  });

  // what a reader opened stays open, and what they typed stays, where a part of the page renews itself
  const summaries = (part, which) => [...part.querySelectorAll(`details${which} > summary`)];
  const isChanged = (field) => field.type === "checkbox" || field.type === "radio"
    ? field.checked !== field.defaultChecked
    : field.options ? [...field.options].some((option) => option.selected !== option.defaultSelected)
    : field.value !== field.defaultValue;
  const value = (field) => /checkbox|radio/.test(field.type) ? `[value="${CSS.escape(field.value)}"]` : "";
  const same = (field) => field.id ? document.getElementById(field.id)
    : $(`[name="${CSS.escape(field.name)}"]${value(field)}`);
  let open = [], written = [], focused = null;
  document.addEventListener("htmx:beforeSwap", (event) => {
    const { target, requestConfig } = event.detail;
    open = summaries(target, "[open]").map((summary) => summary.textContent);
    const isSent = requestConfig.triggeringEvent?.type === "submit";
    const fields = isSent ? [] : [...target.querySelectorAll("input, textarea, select")]
      .filter((field) => field.name && field.type !== "hidden");
    written = fields.filter(isChanged);
    focused = fields.find((field) => field === document.activeElement) ?? null;
  });
  document.addEventListener("htmx:afterSwap", (event) => {
    for (const summary of summaries(event.detail.target, "")) {
      if (open.includes(summary.textContent)) summary.parentElement.open = true;
    }
    for (const old of written) {
      const field = same(old);
      if (!field || field === old) continue;
      field.value = old.value;
      field.checked = old.checked;
    }
    const field = focused && same(focused);
    if (field && field !== focused) {
      field.focus({ preventScroll: true });
      if (focused.selectionStart !== null) field.setSelectionRange?.(focused.selectionStart, focused.selectionEnd);
    }
    [written, focused] = [[], null];
  });

  // what was typed is kept where a session ended: it is there again after signing in
  const TYPED = "typed", here = location.pathname + location.search;
  const fields = (form) => [...form.elements].filter((field) => field.name && field.id
    && !["hidden", "password", "file", "submit"].includes(field.type));
  const keep = (form) => {
    if (!form || $("[data-sign-in]")) return;
    const values = [...document.querySelectorAll("form[method=post]")].flatMap(fields).map((field) => [field.id,
      field.type === "checkbox" || field.type === "radio" ? field.checked : field.value]);
    sessionStorage.setItem(TYPED, JSON.stringify({ page: here, values, ended: false }));
  };
  document.addEventListener("submit", (event) => keep(event.target));
  document.addEventListener("htmx:beforeOnLoad", (event) => {
    if (event.detail.xhr.getResponseHeader("HX-Redirect")) keep(event.detail.elt.closest("form") ?? document.body);
  });
  const typed = JSON.parse(sessionStorage.getItem(TYPED) ?? "null");
  if (typed && $("[data-sign-in]")) {
    sessionStorage.setItem(TYPED, JSON.stringify({ ...typed, ended: true }));
  } else if (typed) {
    sessionStorage.removeItem(TYPED);
    for (const [id, value] of typed.ended && typed.page === here ? typed.values : []) {
      const field = document.getElementById(id);
      if (!field) continue;
      if (typeof value === "boolean") field.checked = value;
      else field.value = value;
      field.dispatchEvent(new Event("input", { bubbles: true }));
    }
  }

  // where the tabs do not all fit, the page's own is the one to see
  const tab = $(".tabs [aria-current]");
  if (tab && tab.parentElement.scrollWidth > tab.parentElement.clientWidth) {
    tab.parentElement.scrollLeft = tab.offsetLeft - (tab.parentElement.clientWidth - tab.offsetWidth) / 2;
  }
})();
