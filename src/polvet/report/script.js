"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent) || {};
  const at = (id) => document.getElementById(id);

  /* A drawing is a list of ranges of lines. It is shown as an image, inside which no script can run. */
  const source = (ranges) => {
    const lines = [];
    for (let k = 0; k < ranges.length; k += 2) {
      lines.push(...data.lines.slice(ranges[k], ranges[k] + ranges[k + 1]));
    }
    return "data:image/svg+xml;charset=utf-8," + encodeURIComponent(lines.join("\n"));
  };

  const replay = () => {
    const runs = data.runs || [];
    if (!at("replay") || runs.length === 0) return;
    const slider = at("step"), choice = at("run"), play = at("play"), move = at("move"), drawing = at("drawing");
    let run = runs[0], timer = 0;

    const cell = (row, text, changed) => {
      const made = document.createElement("td");
      made.textContent = text;
      if (changed) made.className = "changed";
      row.append(made);
    };
    const show = () => {
      const step = Number(slider.value), last = run.actions.length;
      const state = run.states[step], before = step > 0 ? run.states[step - 1] : state;
      at("step-number").textContent = `${step} of ${last}`;
      const rows = data.variables.map((name, k) => {
        const row = document.createElement("tr"), head = document.createElement("th");
        head.scope = "row";
        head.textContent = name;
        row.append(head);
        cell(row, state[k], state[k] !== before[k]);
        cell(row, step > 0 ? before[k] : "", false);
        return row;
      });
      at("variables").replaceChildren(...rows);
      const action = step < last ? run.actions[step] : null, safe = step < last ? run.safe[step] : null;
      const name = action === null ? "the world moves by itself" : `the policy chooses ${action}`;
      move.textContent = step === last ? `The run ends: ${run.end}.`
        : safe ? `Fault: ${name}; safe would have been ${safe.join(" or ")}.` : `Here ${name}.`;
      move.classList.toggle("alarm", Boolean(safe) || step === last);
      const ranges = run.drawings[step];
      drawing.hidden = !ranges;
      if (ranges) {
        drawing.src = source(ranges);
        drawing.alt = "Drawing of the state: " + data.variables.map((key, k) => `${key}=${state[k]}`).join(", ");
      }
      slider.setAttribute("aria-valuetext", `step ${step} of ${last}. ${move.textContent}`);
    };
    const go = (step) => {
      slider.value = String(Math.max(0, Math.min(run.actions.length, step)));
      show();
    };
    const stop = () => {
      window.clearInterval(timer);
      timer = 0;
      play.setAttribute("aria-pressed", "false");
      play.textContent = "Play";
    };
    const start = () => {
      if (Number(slider.value) === run.actions.length) go(0);
      play.setAttribute("aria-pressed", "true");
      play.textContent = "Stop";
      timer = window.setInterval(() => {
        go(Number(slider.value) + 1);
        if (Number(slider.value) === run.actions.length) stop();
      }, 700);
    };
    const step = (by) => { stop(); go(Number(slider.value) + by); };
    slider.addEventListener("input", () => { stop(); show(); });
    choice.addEventListener("change", () => {
      stop();
      run = runs[Number(choice.value)];
      slider.max = String(run.actions.length);
      go(0);
    });
    at("first").addEventListener("click", () => { stop(); go(0); });
    at("last").addEventListener("click", () => { stop(); go(run.actions.length); });
    at("back").addEventListener("click", () => step(-1));
    at("next").addEventListener("click", () => step(1));
    play.addEventListener("click", () => (timer ? stop() : start()));
    document.addEventListener("keydown", (event) => {
      if (event.target.closest("input, select, .scroll") || event.altKey || event.ctrlKey || event.metaKey) return;
      if (event.key === "ArrowRight") step(1);
      else if (event.key === "ArrowLeft") step(-1);
      else return;
      event.preventDefault();
    });
    go(0);
  };

  const faults = () => {
    const box = at("fault-filter");
    if (!box) return;
    const cards = [...document.querySelectorAll(".fault")], when = at("fault-iteration");
    const words = cards.map((card) => {
      const group = card.closest(".group").querySelector("h3").textContent;
      return (card.querySelector("summary").textContent + " " + group).toLowerCase();
    });
    const filter = () => {
      const wanted = box.value.toLowerCase().split(/[\s,]+/).filter(Boolean);
      let shown = 0;
      cards.forEach((card, k) => {
        const fits = wanted.every((word) => words[k].includes(word)) && (!when.value || card.dataset.iteration === when.value);
        card.hidden = !fits;
        shown += fits ? 1 : 0;
      });
      document.querySelectorAll(".group").forEach((group) => {
        group.hidden = !group.querySelector(".fault:not([hidden])");
      });
      at("fault-count").textContent = `${shown} of ${cards.length} faults`;
    };
    box.addEventListener("input", filter);
    when.addEventListener("change", filter);
    cards.forEach((card) => card.addEventListener("toggle", () => {
      const image = card.querySelector("img[data-drawing]:not([src])");
      if (card.open && image) image.src = source(data.drawings[Number(image.dataset.drawing)]);
    }));
  };

  replay();
  faults();
})();
