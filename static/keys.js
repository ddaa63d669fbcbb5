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

  // what a reader opened stays open where a part of the page renews itself
  const summaries = (part, which) => [...part.querySelectorAll(`details${which} > summary`)];
  let open = [];
  document.addEventListener("htmx:beforeSwap", (event) => {
    open = summaries(event.detail.target, "[open]").map((summary) => summary.textContent);
  });
  document.addEventListener("htmx:afterSwap", (event) => {
    for (const summary of summaries(event.detail.target, "")) {
      if (open.includes(summary.textContent)) summary.parentElement.open = true;
    }
  });

  // where the tabs do not all fit, the page's own is the one to see
  const tab = $(".tabs [aria-current]");
  if (tab && tab.parentElement.scrollWidth > tab.parentElement.clientWidth) {
    tab.parentElement.scrollLeft = tab.offsetLeft - (tab.parentElement.clientWidth - tab.offsetWidth) / 2;
  }
})();
