// Run inside a viewer's page in real time: what the first picture and a frame of panning take.
{
  const graph = latheViewer.pages[0], frames = 30, timing = { first_picture_ms: latheViewer.firstPicture };
  const pan = () => {
    const start = performance.now();
    for (let k = 0; k < frames; ++k) {
      graph.plane().x += 9;
      graph.plane().now();
      graph.plane().canvas.getContext("2d").getImageData(0, 0, 1, 1); // waits until it is drawn
    }
    return (performance.now() - start) / frames;
  };
  latheViewer.show(graph);
  timing.folded_ms = pan();
  graph.unfoldAll();
  timing.unfolded_ms = pan();
  const start = performance.now();
  latheViewer.show(latheViewer.pages[2]);
  timing.search_ms = performance.now() - start;
  document.body.append(Object.assign(document.createElement("script"), { type: "application/json", id: "result", textContent: JSON.stringify(timing) }));
}
