// Texts of the page, and the formats of numbers and times, in the language of the browser.

import { WORDS } from "./words.js";

const STORAGE_KEY = "language";
const preferred = localStorage.getItem(STORAGE_KEY) ?? navigator.language.slice(0, 2);

export const LANGUAGES = Object.keys(WORDS);
export const language = LANGUAGES.includes(preferred) ? preferred : "en";
document.documentElement.lang = language;

export function setLanguage(other) {
  localStorage.setItem(STORAGE_KEY, other);
  location.reload();
}

// The text of a key. A key without a text, such as a new enum value, is shown unchanged.
export function t(key, values = {}) {
  const words = WORDS[language][key] ?? WORDS.en[key] ?? key.split(".").at(-1);
  return words.replace(/\{(\w+)\}/g, (_, name) => values[name] ?? "");
}

export function money({ AmountMinor, Currency }, options = { maximumFractionDigits: 0 }) {
  return new Intl.NumberFormat(language, { style: "currency", currency: Currency, currencyDisplay: "narrowSymbol", ...options }).format(AmountMinor / 100);
}

export const short = (amount) => money(amount, { notation: "compact", maximumFractionDigits: 1 });
export const number = (value) => Number(value).toLocaleString(language);
export const time = (at) => new Date(at).toLocaleTimeString(language, { hour: "2-digit", minute: "2-digit" });
export const day = (at) => new Date(at).toLocaleDateString(language, { day: "numeric", month: "short" });
export const month = (text) => new Date(`${text}-01T00:00:00Z`).toLocaleDateString(language, { month: "short", timeZone: "UTC" });
