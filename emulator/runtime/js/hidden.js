// host/hidden.js: what of a text may be the value of a secret, and the text without it. Knows neither lines nor logs. Runs
// beside app code (rules of prim.js).
//
// Hidden are: the value; what JSON.stringify makes of it, up to three times inside each other; its encodeURIComponent; its
// base64 and base64url, of its UTF-8 and as btoa makes it, also inside the base64 of a longer text. Of an encoding that is
// cut out of a longer one a character at each end may stay, which holds a few bits. Nobody can hide a value that code takes
// to pieces or encodes otherwise.
import * as p from "./prim.js";

const HIDDEN = "[secret]";
const LONGEST_READ = 1 << 20;
const ESCAPES = 3;
const SHORTEST_ENCODED = 8; // characters: of less, other words would be hidden too
const ENCODED_BEFORE = [0, 2, 3]; // base64 characters that 0, 1 or 2 bytes in front have a part in

let spellings = [];

/** Hide these values from now on: call it before app code evaluates. */
export function hideValues(values) {
  const found = new p.SetC();
  spellings = [];
  for (let i = 0; i < values.length; i++) spell(values[i], (text) => {
    if (text.length === 0 || p.setHas(found, text)) return;
    p.setAdd(found, text);
    insert(text);
  });
}

function spell(value, add) {
  add(value);
  let escaped = value;
  for (let times = 0; times < ESCAPES; times++) {
    escaped = p.slice(p.JSONstringify(escaped), 1, -1);
    add(escaped);
  }
  add(p.encodeURIComponent(p.toWellFormed(value)));
  encode(value, add);
}

function encode(value, add) {
  encodeBy((text) => p.toBase64(p.utf8(text)), p.utf8len(value), value, add);
  try {
    encodeBy(p.btoa, value.length, value, add);
  } catch {} // it has characters that btoa does not take, so nobody prints that
}

/** `base64` is of the bytes of a text; those of the value are `size`. */
function encodeBy(base64, size, value, add) {
  for (let before = 0; before < ENCODED_BEFORE.length; before++) {
    const whole = base64(p.slice("\0\0", 0, before) + value);
    const end = p.floor(((before + size) * 8) / 6);
    const exact = before === 0 ? p.ceil((size * 8) / 6) : end;
    addEncoded(p.slice(whole, ENCODED_BEFORE[before], exact), add);
    addEncoded(p.slice(whole, ENCODED_BEFORE[before], end), add);
  }
}

function addEncoded(text, add) {
  if (text.length < SHORTEST_ENCODED) return;
  add(text);
  add(p.replaceAll(p.replaceAll(text, "+", "-"), "/", "_"));
}

// The longest first: none is part of one that is looked for later.
function insert(text) {
  let at = spellings.length;
  p.append(spellings, text);
  for (; at > 0 && spellings[at - 1].length < text.length; at--) spellings[at] = spellings[at - 1];
  spellings[at] = text;
}

/** The text without the value of any secret: what of it is not read is left out, and so is a value that this cuts. */
export function hide(text) {
  const isCut = text.length > LONGEST_READ;
  if (isCut) text = p.slice(text, 0, LONGEST_READ);
  for (let i = 0; i < spellings.length; i++) {
    let at = p.indexOf(text, spellings[i]);
    if (at < 0) continue;
    let shown = "";
    let from = 0;
    for (; at >= 0; at = p.indexOf(text, spellings[i], from)) {
      shown += p.slice(text, from, at) + HIDDEN;
      from = at + spellings[i].length;
    }
    text = shown + p.slice(text, from);
  }
  return isCut && spellings.length > 0 ? p.slice(text, 0, -spellings[0].length) : text;
}
