// The command palette: Ctrl-K or Cmd-K opens it, the arrows choose, Enter goes. Without scripts the search page
// finds the same.
(() => {
  "use strict";
  const dialog = document.querySelector("#palette");
  const text = document.querySelector("#palette-text");
  const list = document.querySelector("#palette-list");
  if (!dialog || !text || !list) return;

  const options = () => [...list.querySelectorAll("[role=option]:not([aria-disabled])")];
  const chosen = () => list.querySelector("[aria-selected=true]");
  const choose = (option) => {
    const before = chosen();
    if (before) before.setAttribute("aria-selected", "false");
    if (!option) {
      text.removeAttribute("aria-activedescendant");
      return;
    }
    option.setAttribute("aria-selected", "true");
    text.setAttribute("aria-activedescendant", option.id);
    option.scrollIntoView({ block: "nearest" });
  };
  const step = (by) => {
    const all = options();
    if (!all.length) return;
    const at = all.indexOf(chosen());
    choose(all[(at + by + all.length) % all.length]);
  };
  const act = (option) => {
    const button = option.dataset.press && document.querySelector(option.dataset.press);
    if (button) button.click();
    else location.assign(option.href);
  };
  const open = () => {
    if (dialog.open) return;
    dialog.showModal();
    text.value = "";
    text.focus();
    htmx.trigger(text, "palette-open");
  };

  document.addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey && event.key.toLowerCase() === "k") {
      event.preventDefault();
      if (dialog.open) dialog.close();
      else open();
    }
  });
  document.addEventListener("click", (event) => {
    if (event.target.closest("[data-palette]")) open();
    else if (event.target === dialog) dialog.close(); // beside it
  });
  list.addEventListener("click", (event) => {
    const option = event.target.closest("[data-press]");
    if (!option) return;
    event.preventDefault();
    act(option);
  });
  list.addEventListener("htmx:afterSwap", () => choose(options()[0]));

  // What is listed may be of an earlier text: Enter waits for the answer to the text as it is.
  let answered = "";
  let waiting = false;
  list.addEventListener("htmx:afterSettle", (event) => {
    answered = event.detail.requestConfig.parameters.q;
    if (!waiting || answered !== text.value) return;
    waiting = false;
    enter();
  });
  const enter = () => {
    const option = chosen();
    if (option) act(option);
    else if (text.value.trim()) text.form.submit();
  };
  text.addEventListener("keydown", (event) => {
    const move = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (move) {
      event.preventDefault();
      step(move);
    }
    if (event.key === "Enter") {
      event.preventDefault();
      if (answered === text.value) enter();
      else waiting = true;
    }
  });
})();
