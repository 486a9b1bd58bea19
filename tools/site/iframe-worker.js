// Search for pages opened from disk. A browser starts no worker from a file; this runs the worker's script in a hidden frame.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const waiting = [];
      const answer = (data) => {
        const event = new MessageEvent("message", { data });
        this.dispatchEvent(event);
        if (this.onmessage) this.onmessage(event);
      };
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.addEventListener("load", () => {
        const inner = frame.contentWindow;
        if (!inner || this.inner) return;
        inner.postMessage = (data) => setTimeout(() => answer(data));
        inner.importScripts = () => undefined; // of other languages than English
        const script = inner.document.createElement("script");
        script.src = new URL(url, location.href);
        script.onload = () => {
          this.inner = inner;
          waiting.forEach((data) => this.postMessage(data));
        };
        inner.document.body.append(script);
      });
      this.waiting = waiting;
      document.body.append(frame);
    }
    postMessage(data) {
      if (!this.inner) return void this.waiting.push(data);
      this.inner.dispatchEvent(new this.inner.MessageEvent("message", { data }));
    }
    terminate() {}
  };
}
