// Runs ["batch", [[sql, values]...]] or ["exec", sql] on D1 and answers ["ok", ...] or ["error", message].
const decode = (value) => value?.bytes === undefined ? value : Uint8Array.from(atob(value.bytes), (c) => c.charCodeAt(0));
const encode = (value) => Array.isArray(value) ? { bytes: btoa(String.fromCharCode(...value)) } : value;

async function answer([kind, argument], db) {
  if (kind === "exec") return await db.exec(argument);
  const statements = argument.map(([sql, values]) => {
    const statement = db.prepare(sql);
    return values.length ? statement.bind(...values.map(decode)) : statement;
  });
  const results = await db.batch(statements);
  return results.map(({ results, meta }) => ({
    columns: results.length ? Object.keys(results[0]) : [],
    rows: results.map((row) => Object.values(row).map(encode)),
    changes: meta.changes,
    lastRowId: meta.last_row_id,
    duration: meta.duration,
  }));
}

export default {
  async fetch(request, env) {
    try {
      return Response.json(["ok", await answer(await request.json(), env.DB)]);
    } catch (error) {
      return Response.json(["error", error.message]);
    }
  },
};
