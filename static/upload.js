// A file on its way, by bytes. Without it the form is sent as any other.
(() => {
  "use strict";
  const UNITS = ["B", "KiB", "MiB", "GiB"];
  const bytes = (count) => {
    const step = Math.min(Math.floor(Math.log2(Math.max(count, 1)) / 10), UNITS.length - 1);
    return `${(count / 1024 ** step).toFixed(step ? 1 : 0)} ${UNITS[step]}`;
  };

  document.addEventListener("submit", (event) => {
    const form = event.target.closest("form[data-upload]");
    const file = form?.querySelector("input[type=file]")?.files[0];
    if (!file) return;
    event.preventDefault();
    const box = form.querySelector("[data-upload-progress]");
    const [bar, text] = [box.querySelector("progress"), box.querySelector("[role=status]")];
    const button = form.querySelector("button[type=submit]");
    const stop = (message) => {
      button.disabled = false;
      bar.value = 0;
      text.textContent = message;
    };
    box.hidden = false;
    if (file.size > Number(form.dataset.upload)) {
      stop(`The file has ${bytes(file.size)}; at most ${bytes(Number(form.dataset.upload))} are taken.`);
      return;
    }
    button.disabled = true;
    const request = new XMLHttpRequest();
    request.open("POST", form.action);
    request.setRequestHeader("HX-Request", "true");
    request.upload.addEventListener("progress", ({ loaded, total }) => {
      bar.value = loaded / total;
      text.textContent = loaded < total
        ? `${bytes(loaded)} of ${bytes(total)}, ${Math.floor((100 * loaded) / total)} %`
        : `${bytes(total)} sent. The file is kept.`;
    });
    request.addEventListener("error", () => stop("The connection was lost. Send it again."));
    request.addEventListener("load", () => {
      const place = request.getResponseHeader("HX-Redirect");
      if (place) {
        location.assign(place);
        return;
      }
      const page = new DOMParser().parseFromString(request.responseText, "text/html");
      const main = page.querySelector("form[data-upload]");
      if (main) form.replaceWith(main);
      else stop(`The server refused it: ${request.status}.`);
    });
    request.send(new FormData(form));
  });
})();
