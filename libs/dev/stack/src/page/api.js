// The client of the platform with the token of the person of this tab.

import { language } from "./i18n.js";
import { createClient, problem } from "./platform-api.js";
import { renew, token } from "./session.js";

export const api = createClient({ language, token, refresh: renew });

// An error in the language of the page.
export function explain(error) {
  if (!problem(error)) return error.message;
  const { detail, title, errors } = error.problem;
  return [detail ?? title, ...errors.map(({ field, message }) => `${field}: ${message}`)].join("; ");
}
