// The page's words in the reader's language, and numbers and times as that language writes them.

import { WORDS } from "./words.js";

const KEPT = "language";
const asked = localStorage.getItem(KEPT) ?? navigator.language.slice(0, 2);

export const LANGUAGES = Object.keys(WORDS);
export const language = LANGUAGES.includes(asked) ? asked : "en";
document.documentElement.lang = language;

export function speak(other) {
  localStorage.setItem(KEPT, other);
  location.reload();
}

// The words of a key; what has no words of its own, a value of an enum that is new, shows as it is.
export function t(key, values = {}) {
  const words = WORDS[language][key] ?? WORDS.en[key] ?? key.split(".").at(-1);
  return words.replace(/\{(\w+)\}/g, (_, name) => values[name] ?? "");
}

export function money({ AmountMinor, Currency }, options = { maximumFractionDigits: 0 }) {
  return new Intl.NumberFormat(language, { style: "currency", currency: Currency, currencyDisplay: "narrowSymbol", ...options }).format(AmountMinor / 100);
}

export const short = (amount) => money(amount, { notation: "compact", maximumFractionDigits: 1 });
export const time = (at) => new Date(at).toLocaleTimeString(language, { hour: "2-digit", minute: "2-digit" });
export const day = (at) => new Date(at).toLocaleDateString(language, { day: "numeric", month: "short" });
export const month = (text) => new Date(`${text}-01T00:00:00Z`).toLocaleDateString(language, { month: "short", timeZone: "UTC" });
