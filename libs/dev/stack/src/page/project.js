// The project of the public catalog that the visitor chose in the grid.

import { api } from "./api.js";

export let project = null;

export async function chooseProject(id) {
  project = await api.get("/api/v1/public/projects/{project_id}", { path: { project_id: id } });
}
