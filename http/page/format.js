// Numbers as people read them. Pure.

const UNITS = ["B", "kB", "MB", "GB", "TB"];

/** 93_400_000 is "93 MB": three digits at most, in thousands. */
export function bytes(count) {
  let value = count;
  let unit = 0;
  while (value >= 999.5 && unit < UNITS.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${digits(value)} ${UNITS[unit]}`;
}

/** Three digits at most, and none behind the point that say nothing. */
export function digits(value) {
  if (value === 0 || value >= 99.95) return String(Math.round(value));
  const text = value.toFixed(value >= 9.995 ? 1 : 2);
  return text.replace(/\.?0+$/, "");
}

/** A whole number with a thin gap between thousands. */
export function count(value) {
  return String(value).replace(/\B(?=(\d{3})+$)/g, "\u202f");
}

/** "1 token", "34 tokens". */
export function plural(value, noun) {
  return `${count(value)} ${noun}${value === 1 ? "" : "s"}`;
}

/** Tokens per second, without shivering digits. */
export function rate(value) {
  return value >= 10 || value === 0 ? String(Math.round(value)) : value.toFixed(1);
}

/** Milliseconds as the nearest unit that reads well. */
export function duration(ms) {
  if (ms < 999.5) return `${digits(ms)} ms`;
  const seconds = ms / 1000;
  if (seconds < 59.95) return `${seconds.toFixed(1)} s`;
  const minutes = Math.floor(Math.round(seconds) / 60);
  return minutes < 60
    ? `${minutes} min ${Math.round(seconds) % 60} s`
    : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}
