/** A page of any kind of list. */
interface Page {
  Items: unknown[];
  Page?: number;
  PageSize?: number;
  TotalCount?: number;
  NextCursor?: string | null;
  HasMore?: boolean;
}

type Query = Record<string, unknown>;

/** `Page` × `PageSize` never exceeds this number. */
const MAX_ITEMS = 10_000;

/** Reads a list page by page. `read` returns the page of a query. */
export async function* pages<T>(read: (query: Query) => Promise<T>, first: Query): AsyncGenerator<T, void> {
  let query: Query | undefined = first;
  while (query) {
    const page: T = await read(query);
    yield page;
    query = next(page as Page, query);
  }
}

function next(page: Page, query: Query): Query | undefined {
  // A column of a board has a cursor and a count.
  if (page.NextCursor !== undefined) {
    return page.NextCursor === null ? undefined : { ...query, Cursor: page.NextCursor };
  }
  if (page.HasMore !== undefined) {
    const last = page.Items.at(-1) as { Sequence: number } | undefined;
    if (!page.HasMore || !last) return undefined;
    const name = query.AfterSequence === undefined ? "BeforeSequence" : "AfterSequence";
    return { ...query, [name]: last.Sequence };
  }
  const { Page = 1, PageSize = 20, TotalCount = 0 } = page;
  const isLast = Page * PageSize >= TotalCount || (Page + 1) * PageSize > MAX_ITEMS;
  return isLast ? undefined : { ...query, Page: Page + 1 };
}
