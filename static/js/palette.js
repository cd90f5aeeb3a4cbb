// The palette: `/` or Ctrl-K opens it, arrows choose, Enter goes there, Escape closes it.
//
// The results are those of the address in data-address: { results: [{ kind, name, says, address }] }.

const WAIT = 120; // milliseconds after the last key before the server is asked

export function preparePalette() {
  const dialog = document.getElementById("palette");
  if (!dialog) return;
  const input = dialog.querySelector("input");
  const list = dialog.querySelector("[role=listbox]");
  const status = dialog.querySelector("[role=status]");
  let lastRequest = 0;
  let waiting = null;

  const options = () => [...list.children];
  const chosen = () => list.querySelector("[aria-selected=true]");

  function choose(option) {
    chosen()?.setAttribute("aria-selected", "false");
    if (!option) return input.removeAttribute("aria-activedescendant");
    option.setAttribute("aria-selected", "true");
    option.scrollIntoView({ block: "nearest" });
    input.setAttribute("aria-activedescendant", option.id);
  }

  function row({ kind, name, says, address }, number) {
    const option = document.createElement("li");
    option.id = `palette-${number}`;
    option.setAttribute("role", "option");
    option.setAttribute("aria-selected", "false");
    option.dataset.address = address;
    for (const [tag, text] of [["small", kind], ["b", name], ["span", says]]) {
      const part = document.createElement(tag);
      part.textContent = text;
      option.append(part);
    }
    return option;
  }

  /** Go to a result: only to addresses of this site. */
  function go(option) {
    if (/^\/(?!\/)/.test(option?.dataset.address ?? "")) location.assign(option.dataset.address);
  }

  async function ask() {
    const request = ++lastRequest;
    let found;
    try {
      const address = new URL(dialog.dataset.address, location.href);
      address.searchParams.set("q", input.value);
      const answer = await fetch(address, { headers: { Accept: "application/json" } });
      if (!answer.ok) throw new Error(answer.statusText);
      found = (await answer.json()).results;
    } catch {
      found = null;
    }
    // Ignore a late answer to an earlier text.
    if (request !== lastRequest) return;
    list.replaceChildren(...(found ?? []).map(row));
    status.textContent = found === null ? dialog.dataset.failed : found.length ? "" : dialog.dataset.none;
    choose(list.firstElementChild);
  }

  function open() {
    if (dialog.open) return;
    dialog.showModal();
    input.select();
    ask();
  }

  function move(step) {
    const all = options();
    if (all.length) choose(all[(all.indexOf(chosen()) + step + all.length) % all.length]);
  }

  input.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(ask, WAIT);
  });
  input.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown") move(1);
    else if (event.key === "ArrowUp") move(-1);
    else if (event.key === "Enter") go(chosen());
    else return;
    event.preventDefault();
  });
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close();
    else go(event.target.closest("[role=option]"));
  });
  document.addEventListener("keydown", (event) => {
    const isShortcut = (event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k";
    const isSlash = event.key === "/" && !event.ctrlKey && !event.metaKey && !event.altKey && !isTyping(event.target);
    if (!isShortcut && !isSlash) return;
    event.preventDefault();
    open();
  });
  for (const button of document.querySelectorAll("[data-opens-palette]")) {
    button.hidden = false;
    button.addEventListener("click", open);
  }
}

function isTyping(element) {
  return element.isContentEditable || element.matches("input, textarea, select");
}
