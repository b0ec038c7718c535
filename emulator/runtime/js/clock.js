// host/clock.js: contract time inside an isolate. `replaceClock` is called before app code evaluates and only on a
// controlled clock; on the system clock nothing is replaced.
import * as p from "./prim.js";

const RealDate = Date;
const realNow = Date.now;
const dateText = p.uncurry(Date.prototype.toString);
let stands = true;
let value = 0; // the instant it stands at, or what it is ahead of the system clock

const now = () => (stands ? value : realNow() + value);

/** Stand at an instant until told otherwise; does nothing that app code could see on the system clock. */
export const setNow = (atMs) => {
  stands = true;
  value = atMs;
};

/** Go on at the pace of the system clock, ahead of it by so much. */
export const setOffset = (aheadMs) => {
  stands = false;
  value = aheadMs;
};

const put = (object, key, value) => p.defineProperty(object, key, p.dataDesc(value, false, true, true));
const dress = (made, name, length) => {
  p.defineProperty(made, "name", p.dataDesc(name, false, false, true));
  p.defineProperty(made, "length", p.dataDesc(length, false, false, true));
  return made;
};

const replaceDate = () => {
  const ControlledDate = function () {
    if (new.target === undefined) return dateText(new RealDate(now()));
    return p.construct(RealDate, arguments.length === 0 ? [now()] : arguments, new.target);
  };
  dress(ControlledDate, "Date", 7);
  p.defineProperty(ControlledDate, "prototype", p.dataDesc(RealDate.prototype, false, false, false));
  put(ControlledDate, "now", dress({ now: () => now() }.now, "now", 0));
  put(ControlledDate, "parse", RealDate.parse);
  put(ControlledDate, "UTC", RealDate.UTC);
  put(RealDate.prototype, "constructor", ControlledDate);
  put(globalThis, "Date", ControlledDate);
};

const replaceFormats = () => {
  const proto = Intl.DateTimeFormat.prototype;
  const formatGet = p.uncurry(p.gopd(proto, "format").get);
  const parts = p.uncurry(proto.formatToParts);
  const getter = p.gopd({ get format() {
    const format = formatGet(this);
    return (date) => format(date === undefined ? now() : date);
  } }, "format").get;
  p.defineProperty(proto, "format", { __proto__: null, get: getter, set: undefined, enumerable: false, configurable: true });
  put(proto, "formatToParts", { formatToParts(date) {
    return parts(this, date === undefined ? now() : date);
  } }.formatToParts);
};

// The runtime's own counts from 1970, too: its timeOrigin is 0.
const replacePerformance = () => {
  const target = p.hasOwn(performance, "now") ? performance : p.getProto(performance);
  put(target, "now", dress({ now: () => now() }.now, "now", 0));
};

const replaceFile = () => {
  const RealFile = File;
  const ControlledFile = function (bits, name, options) {
    if (new.target === undefined) throw new p.TErr("Class constructor File cannot be invoked without 'new'");
    const given = options === undefined || options === null ? undefined : options.lastModified;
    const all = { __proto__: null, lastModified: given === undefined ? now() : given, type: options?.type };
    if (all.type === undefined) all.type = "";
    return p.construct(RealFile, [bits, name, all], new.target);
  };
  dress(ControlledFile, "File", 2);
  p.defineProperty(ControlledFile, "prototype", p.dataDesc(RealFile.prototype, false, false, false));
  put(RealFile.prototype, "constructor", ControlledFile);
  put(globalThis, "File", ControlledFile);
};

const replaceTemporal = () => {
  if (typeof Temporal === "undefined") return;
  const { Instant, Now } = Temporal;
  const at = (zone) => Instant.fromEpochMilliseconds(now()).toZonedDateTimeISO(zone ?? Now.timeZoneId());
  put(Now, "instant", dress({ instant: () => Instant.fromEpochMilliseconds(now()) }.instant, "instant", 0));
  put(Now, "zonedDateTimeISO", (zone) => at(zone));
  put(Now, "plainDateTimeISO", (zone) => at(zone).toPlainDateTime());
  put(Now, "plainDateISO", (zone) => at(zone).toPlainDate());
  put(Now, "plainTimeISO", (zone) => at(zone).toPlainTime());
};

/** Replace every source of the time of day by contract time, which stands at `atMs` for now. */
export const replaceClock = (atMs) => {
  setNow(atMs);
  replaceDate();
  replaceFormats();
  replacePerformance();
  replaceFile();
  replaceTemporal();
};
