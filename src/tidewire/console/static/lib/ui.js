// The one door to the vendored view library: pages import from here, so that it can be replaced in one place.
// Text that is put into a template is always text: nothing here, and no page, makes markup out of a string.
import { Fragment, h, render } from "../vendor/preact/preact.mjs";
import htm from "../vendor/htm/htm.mjs";

export { Fragment, render };
export { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "../vendor/preact/hooks.mjs";

export const html = htm.bind(h);
