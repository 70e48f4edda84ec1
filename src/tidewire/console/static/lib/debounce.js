// Do it when things have been quiet for a while.
import { useEffect, useRef } from "./ui.js";

/** Calls act(value, signal) when the value has not changed for so long; what is under way is aborted by a new value. */
export function useSettled(value, seconds, act) {
  const latest = useRef(act);
  latest.current = act;
  useEffect(() => {
    const abort = new AbortController();
    const timer = setTimeout(() => latest.current(value, abort.signal), seconds * 1000);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [value]);
}
