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

  // An input keeps its name in its form: an id, else the form's address and hidden values.
  const UNKEPT = ["hidden", "password", "file", "submit", "button"];
  const inputs = (part) => [...part.querySelectorAll("input, textarea, select")]
    .filter((field) => field.name && field.form?.method === "post" && !UNKEPT.includes(field.type));
  const isTick = (field) => field.type === "checkbox" || field.type === "radio";
  const nameOf = (field) => field.id || JSON.stringify([
    ...[...field.form.elements].filter((other) => other.type === "hidden" && other.name !== "csrfmiddlewaretoken")
      .map((other) => other.value),
    field.form.getAttribute("action"), field.name, isTick(field) ? field.value : "",
  ]);
  const stateOf = (field) => isTick(field) ? field.checked : field.value;
  const isChanged = (field) => isTick(field) ? field.checked !== field.defaultChecked
    : field.options ? [...field.options].some((option) => option.selected !== option.defaultSelected)
    : field.value !== field.defaultValue;
  const restore = (states) => {
    const typed = new Map(states);
    return inputs(document).filter((field) => {
      const state = typed.get(nameOf(field));
      if (state === undefined || state === stateOf(field)) return false;
      field[isTick(field) ? "checked" : "value"] = state;
      return true;
    });
  };
  const namedStates = (fields) => fields.map((field) => [nameOf(field), stateOf(field)]);

  // What a reader opened stays open, and typed input stays, where a part of the page renews itself.
  const summaries = (part, which) => [...part.querySelectorAll(`details${which} > summary`)];
  let open = [], written = [], focused = null;
  document.addEventListener("htmx:beforeSwap", ({ detail: { target, requestConfig } }) => {
    open = summaries(target, "[open]").map((summary) => summary.textContent);
    const fields = requestConfig.triggeringEvent?.type === "submit" ? [] : inputs(target);
    written = namedStates(fields.filter(isChanged));
    const field = fields.find((one) => one === document.activeElement);
    focused = field ? { field, name: nameOf(field), range: [field.selectionStart, field.selectionEnd] } : null;
  });
  document.addEventListener("htmx:afterSwap", (event) => {
    for (const summary of summaries(event.detail.target, "")) {
      if (open.includes(summary.textContent)) summary.parentElement.open = true;
    }
    restore(written);
    const field = focused && inputs(document).find((one) => nameOf(one) === focused.name);
    if (field && field !== focused.field) {
      field.focus({ preventScroll: true });
      if (focused.range[0] !== null) field.setSelectionRange?.(...focused.range);
    }
    [written, focused] = [[], null];
  });

  // Typed input is kept when a session ends or a form is too old, and is there again on the way back.
  const TYPED = "typed", here = `${location.pathname}?${new URLSearchParams(location.search)}`;
  const keep = (ended) => {
    if ($("[data-keeps-input]")) return;
    sessionStorage.setItem(TYPED, JSON.stringify({ page: here, states: namedStates(inputs(document)), ended }));
  };
  document.addEventListener("submit", () => keep(false));
  document.addEventListener("htmx:beforeOnLoad", (event) => {
    if (event.detail.xhr.getResponseHeader("HX-Redirect")) keep(true);
  });
  const typed = JSON.parse(sessionStorage.getItem(TYPED) ?? "null");
  if (typed && $("[data-keeps-input]")) {
    sessionStorage.setItem(TYPED, JSON.stringify({ ...typed, ended: true }));
  } else if (typed) {
    sessionStorage.removeItem(TYPED);
    const restored = typed.ended && typed.page === here ? restore(typed.states) : [];
    for (const field of restored) {
      for (let part = field.closest("details"); part; part = part.parentElement.closest("details")) part.open = true;
    }
    addEventListener("load", () => { // htmx listens by then
      for (const field of restored) field.dispatchEvent(new Event("input", { bubbles: true }));
    });
  }

  // where the tabs do not all fit, the page's own is the one to see
  const tab = $(".tabs [aria-current]");
  if (tab && tab.parentElement.scrollWidth > tab.parentElement.clientWidth) {
    tab.parentElement.scrollLeft = tab.offsetLeft - (tab.parentElement.clientWidth - tab.offsetWidth) / 2;
  }
})();
