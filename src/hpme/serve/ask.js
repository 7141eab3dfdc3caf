// Sends questions to the server this page came from, and shows the pages that answer them.

const LIMIT = 1 << 20;
const DELAY = 200; // milliseconds without a key before a molecule is drawn
const byId = (id) => document.getElementById(id);
const question = byId("question"), status = byId("status"), error = byId("error");
let asked = 0;

async function post(path, kind, text, signal) {
  const body = JSON.stringify({ kind, text });
  if (body.length > LIMIT) throw new Error("This is too long; hpme explain and hpme apply read files.");
  let reply;
  try {
    reply = await fetch(path, { method: "POST", headers: { "content-type": "application/json" }, body, signal });
  } catch (problem) {
    if (problem.name === "AbortError") throw problem;
    throw new Error("The server does not answer; it may have ended.");
  }
  if (reply.ok) return reply;
  const told = await reply.json().catch(() => ({}));
  throw new Error(told.error || `The server failed (${reply.status}).`);
}

function show(address, button) {
  byId("answer").hidden = false;
  byId("answer").src = `${address}#graph-0`;
  for (const other of byId("earlier").querySelectorAll("button")) other.setAttribute("aria-current", other === button);
}

function remember(text, address) {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = text.length > 40 ? `${text.slice(0, 39)}…` : text;
  button.title = text.slice(0, 1000);
  button.addEventListener("click", () => show(address, button));
  const item = document.createElement("li");
  item.append(button);
  byId("earlier").prepend(item);
  return button;
}

async function ask(kind, text, name) {
  const number = ++asked, start = performance.now();
  error.textContent = "";
  status.textContent = "Asking the model …";
  document.body.setAttribute("aria-busy", "true");
  try {
    const found = await (await post("ask", kind, text)).json();
    const button = remember(name, found.answer);
    if (number !== asked) return; // a later question is under way, or was answered before
    show(found.answer, button);
    status.textContent = `Answered in ${((performance.now() - start) / 1000).toFixed(1)} s. ${found.note}`;
  } catch (problem) {
    if (number !== asked) return;
    status.textContent = "";
    error.textContent = problem.message;
  } finally {
    if (number === asked) document.body.removeAttribute("aria-busy");
  }
}

let drawing = new AbortController(), timer = 0, drawn = "";

async function draw() {
  drawing.abort();
  drawing = new AbortController();
  const text = question.value.trim();
  let address = "";
  if (text && !text.startsWith("{") && !text.startsWith("[{")) {
    try {
      const reply = await post("picture", "text", text, drawing.signal);
      address = URL.createObjectURL(await reply.blob());
    } catch (problem) {
      if (problem.name === "AbortError") return;
    }
  }
  if (drawn) URL.revokeObjectURL(drawn);
  drawn = address;
  byId("picture").hidden = !address;
  if (address) {
    byId("picture").src = address;
    byId("picture").alt = `Molecule ${text.split(/\s/)[0]}`;
  }
}

// What is drawn becomes the first line, and the first line what is drawn. The sketcher is large, so it
// is read when it is asked for.
let sketcher = null;

async function openSketcher() {
  const { CanvasEditor, Molecule } = await import("./openchemlib.js");
  const editor = new CanvasEditor(byId("sketcher"));
  sketcher = {
    show() {
      const [smiles] = question.value.trim().split(/\s/);
      if (smiles === editor.getMolecule().toIsomericSmiles()) return;
      try {
        editor.setMolecule(Molecule.fromSmiles(smiles));
      } catch { /* one that is still being typed */ }
    },
  };
  editor.setOnChangeListener(({ type, isUserEvent }) => {
    if (type !== "molecule" || !isUserEvent) return;
    const [, ...others] = question.value.split("\n");
    question.value = [editor.getMolecule().toIsomericSmiles(), ...others].join("\n");
    draw();
  });
  sketcher.show();
}

byId("draw").addEventListener("click", async () => {
  const hidden = !byId("sketcher").hidden;
  byId("sketcher").hidden = hidden;
  byId("draw").setAttribute("aria-expanded", String(!hidden));
  if (!hidden && !sketcher) await openSketcher();
});
byId("form").addEventListener("submit", (event) => {
  event.preventDefault();
  const text = question.value;
  ask("text", text, text.trim().split(/\n/)[0]);
});
question.addEventListener("input", () => {
  clearTimeout(timer);
  timer = setTimeout(() => { draw(); sketcher?.show(); }, DELAY);
});
question.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) byId("form").requestSubmit();
});
byId("file").addEventListener("change", async () => {
  const [file] = byId("file").files;
  if (!file) return;
  byId("file").value = ""; // so that the same file can be chosen again
  if (file.size > LIMIT) {
    error.textContent = "This file is too large; hpme explain and hpme apply read it.";
    return;
  }
  const ending = file.name.split(".").pop().toLowerCase();
  ask(["csv", "tsv", "json"].includes(ending) ? ending : "text", await file.text(), file.name);
});

// The colours are those that were chosen on a page of answers, else what the system prefers.
const dark = matchMedia("(prefers-color-scheme: dark)");

function colour() {
  let chosen = null;
  try { chosen = localStorage.getItem("hpme-theme"); } catch { /* some browsers forbid it */ }
  document.documentElement.dataset.theme = chosen || (dark.matches ? "dark" : "light");
}

dark.addEventListener("change", colour);
addEventListener("storage", colour);
colour();
question.focus();
