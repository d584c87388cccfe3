// Nothing on the page needs this but the charts, enlarging a figure, and printing.
const dark = matchMedia("(prefers-color-scheme: dark)");
const ink = () => getComputedStyle(document.body).color;

// What draws charts is packed, and unpacked once the first chart is seen.
async function run(library) {
  const bytes = Uint8Array.from(atob(library.textContent), (c) => c.charCodeAt(0));
  const text = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  const script = document.createElement("script");
  script.textContent = await new Response(text).text();
  document.head.append(script);
}
let ready;
async function libraries() {
  for (const library of document.querySelectorAll(".library")) await run(library);
}

async function chart(place) {
  await (ready ??= libraries());
  const spec = JSON.parse(document.getElementById(place.dataset.spec).textContent);
  const look = {labelColor: ink(), titleColor: ink(), titleFontWeight: "normal", titleFontSize: 12, labelFontSize: 11, gridColor: "#88888855", domainColor: "#888888"};
  spec.config = {...spec.config, axis: {...spec.config.axis, ...look},
    legend: {...spec.config.legend, labelColor: ink(), labelFontSize: 12, symbolOpacity: 1}, view: {stroke: null}};
  const actions = {export: true, source: false, compiled: false, editor: false};
  const fields = place.previousElementSibling;
  fields.replaceChildren();
  vegaEmbed(place, spec, {renderer: "svg", actions, bind: fields}).then(() => {
    place.querySelector("summary").setAttribute("aria-label", "Save this chart");
  });
}
const seen = new IntersectionObserver((entries) => {
  for (const entry of entries.filter((e) => e.isIntersecting)) {
    seen.unobserve(entry.target);
    chart(entry.target);
  }
}, {rootMargin: "400px"});
const places = document.querySelectorAll(".chart");
if ("DecompressionStream" in window) {
  for (const part of document.querySelectorAll(".scripted")) part.hidden = false;
  for (const part of document.querySelectorAll(".unscripted")) part.hidden = true;
  places.forEach((place) => seen.observe(place));
  dark.addEventListener("change", () => places.forEach(chart));
}

const large = document.getElementById("large");
for (const button of document.querySelectorAll(".enlarge")) {
  button.addEventListener("click", () => {
    const image = button.querySelector("img").cloneNode();
    large.querySelector(".picture").replaceChildren(image);
    large.showModal();
  });
}
large.addEventListener("click", (event) => event.target === large && large.close());

// A link into something closed opens it.
function show() {
  const target = location.hash && document.getElementById(location.hash.slice(1));
  if (!target) return;
  for (let part = target; part; part = part.parentElement) {
    if (part.tagName === "DETAILS") part.open = true;
  }
  target.scrollIntoView();
}
addEventListener("hashchange", show);
show();

let opened = [];
addEventListener("beforeprint", () => {
  opened = [...document.querySelectorAll("details:not([open])")];
  opened.forEach((part) => (part.open = true));
});
addEventListener("afterprint", () => opened.forEach((part) => (part.open = false)));
