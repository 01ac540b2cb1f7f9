// The project of the public catalog that the visitor chose in the grid.

import { get } from "./api.js";

export const PUBLIC = "/api/v1/public/projects";
export let project = null;

export async function chooseProject(id) {
  project = await get(`${PUBLIC}/${id}`);
}
