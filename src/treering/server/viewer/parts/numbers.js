/** Numbers as people read them: grouped, short, with their unit. What is not known is no text, never 0. */

const WHOLE = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

function known(value) {
  return value !== null && value !== undefined && value !== "" && Number.isFinite(Number(value));
}

/** A whole number: "1,204". */
export function count(value) {
  return known(value) ? WHOLE.format(Number(value)) : "";
}

function short(value, step, units) {
  let size = Math.abs(value);
  let unit = 0;
  while (size >= step * 0.9995 && unit < units.length - 1) {
    size /= step;
    unit += 1;
  }
  const shown = unit === 0 || size >= 99.95 ? size.toFixed(0) : size.toFixed(size >= 9.95 ? 0 : 1).replace(/\.0$/, "");
  return `${value < 0 ? "-" : ""}${shown}${units[unit]}`;
}

/** Tokens, short: "950", "8.2k", "82k", "1.3M". */
export function tokens(value) {
  return known(value) ? short(Number(value), 1000, ["", "k", "M", "G"]) : "";
}

/** Bytes, short: "840 B", "31 kB", "2.1 MB". */
export function bytes(value) {
  return known(value) ? short(Number(value), 1000, [" B", " kB", " MB", " GB", " TB"]) : "";
}

/** Money: a decimal text of the server, with two digits; what is less than one hundredth says so. */
export function money(value, currency = "USD") {
  if (!known(value)) return "";
  const amount = Number(value);
  const format = new Intl.NumberFormat("en", {
    style: "currency",
    currency,
    minimumFractionDigits: 2,
    maximumFractionDigits: 2,
  });
  return amount > 0 && amount < 0.01 ? `<${format.format(0.01)}` : format.format(amount);
}

/** "1 entry", "1,204 entries". */
export function counted(value, one, many = `${one}s`) {
  return `${count(value)} ${Number(value) === 1 ? one : many}`;
}

/** "1 entry", "212 entries". */
export const entries = (value) => counted(value, "entry", "entries");

/** "1 line", "480 lines". */
export const lines = (value) => counted(value, "line");
