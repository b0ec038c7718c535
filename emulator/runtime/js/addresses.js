// What kind of place a host in a URL is. Takes the `hostname` of a parsed URL: spellings are already one.

export const Reach = Object.freeze({
  NAME: "name", // to be resolved
  PUBLIC: "public", // a literal address of the public internet
  LOCAL: "local", // this machine: loopback, unspecified, localhost
  PRIVATE: "private", // a private network
  SPECIAL: "special", // link-local, multicast, documentation, reserved, translated
});

const V4 = [
  ["0.0.0.0", 8, Reach.LOCAL],
  ["127.0.0.0", 8, Reach.LOCAL],
  ["10.0.0.0", 8, Reach.PRIVATE],
  ["172.16.0.0", 12, Reach.PRIVATE],
  ["192.168.0.0", 16, Reach.PRIVATE],
  ["100.64.0.0", 10, Reach.PRIVATE],
  ["169.254.0.0", 16, Reach.SPECIAL],
  ["192.0.0.0", 24, Reach.SPECIAL],
  ["192.0.2.0", 24, Reach.SPECIAL],
  ["192.88.99.0", 24, Reach.SPECIAL],
  ["198.18.0.0", 15, Reach.SPECIAL],
  ["198.51.100.0", 24, Reach.SPECIAL],
  ["203.0.113.0", 24, Reach.SPECIAL],
  ["224.0.0.0", 3, Reach.SPECIAL],
];

function v4Number(text) {
  return text.split(".").reduce((number, part) => number * 256 + Number(part), 0);
}

function reachOfV4(number) {
  for (const [base, bits, reach] of V4) {
    const size = 2 ** (32 - bits);
    if (Math.floor(number / size) === Math.floor(v4Number(base) / size)) return reach;
  }
  return Reach.PUBLIC;
}

/** The eight 16-bit groups of an address as a URL prints it: no embedded IPv4, at most one "::". */
function v6Groups(text) {
  const [head, tail] = text.split("::").map((side) => (side === "" ? [] : side.split(":")));
  const groups = tail === undefined ? head : [...head, ...Array(8 - head.length - tail.length).fill("0"), ...tail];
  return groups.map((group) => parseInt(group, 16));
}

function reachOfV6(groups) {
  const low = groups[6] * 65536 + groups[7];
  const leading = groups.findIndex((group) => group !== 0);
  if (leading < 0 || (leading === 7 && groups[7] === 1)) return Reach.LOCAL; // :: and ::1
  if (leading === 5 && groups[5] === 0xffff) return reachOfV4(low); // ::ffff:0:0/96
  if (leading >= 6) return reachOfV4(low) === Reach.LOCAL ? Reach.LOCAL : Reach.SPECIAL; // ::/96
  if ((groups[0] & 0xfe00) === 0xfc00) return Reach.PRIVATE;
  if ((groups[0] & 0xe000) !== 0x2000) return Reach.SPECIAL; // outside 2000::/3: link-local, multicast, 64:ff9b::/96
  if (groups[0] === 0x2002) return Reach.SPECIAL; // 6to4 carries any IPv4
  if (groups[0] === 0x2001 && (groups[1] < 0x200 || groups[1] === 0xdb8)) return Reach.SPECIAL; // Teredo and the like
  return Reach.PUBLIC;
}

/** The `Reach` of `hostname`, without a trailing dot. */
export function reachOf(hostname) {
  if (hostname.startsWith("[")) return reachOfV6(v6Groups(hostname.slice(1, -1)));
  if (/^\d+\.\d+\.\d+\.\d+$/.test(hostname)) return reachOfV4(v4Number(hostname));
  return hostname === "localhost" || hostname.endsWith(".localhost") ? Reach.LOCAL : Reach.NAME;
}
