/** Holds the streams of all tabs, so that they share the few connections that a browser opens to one server. */

import { connect } from "./client.js";
import { Hub, Port } from "./parts/hub.js";

/** @type {Hub|null} */
let hub = null;

addEventListener("connect", (event) => {
  const [channel] = /** @type {MessageEvent} */ (event).ports;
  /** @type {Port|null} */
  let port = null;
  channel.onmessage = ({ data }) => {
    if (data.hello) {
      hub ??= new Hub(connect(data.hello.base, { timing: data.hello.timing }));
      port = new Port(hub, (message) => channel.postMessage(message));
      port.take({ check: true });
    } else port?.take(data);
  };
});
