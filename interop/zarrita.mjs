// Reads whole Zarr hierarchies with zarrita for readers.py.
//
// node zarrita.mjs FOLDER < jobs.json
//
// jobs.json is a list of paths of Zarr groups. The elements of every array are written
// to a file in FOLDER: a JSON list for strings, otherwise little-endian bytes in C
// order. Standard output receives {path: {file, data_type, shape}} or {path: {error}}
// per group, in order.

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { FileSystemStore } from "@zarrita/storage";
import * as zarr from "zarrita";

const [folder] = process.argv.slice(2);
const groups = JSON.parse(readFileSync(0, "utf8"));
let files = 0;

async function read(node) {
	const data_type = node.dtype;
	const shape = node.shape;
	// zarrita 0.7 can open an empty array but fails to read it.
	const { data } = shape.includes(0) ? { data: new Uint8Array() } : await zarr.get(node, null);
	const file = join(folder, `${files++}`);
	if (data_type === "string") {
		writeFileSync(file, JSON.stringify(Array.from(data)));
	} else {
		// A BoolArray is not a typed array, but it also views a buffer.
		writeFileSync(file, new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
	}
	return { file, data_type, shape };
}

async function readGroup(path) {
	const store = await zarr.withConsolidatedMetadata(new FileSystemStore(path), { format: "v3" });
	const group = await zarr.open.v3(store, { kind: "group" });
	const results = {};
	for (const { path, kind } of store.contents()) {
		if (kind !== "array") continue;
		const name = path.slice(1);
		try {
			results[name] = await read(await zarr.open.v3(group.resolve(name), { kind: "array" }));
		} catch (error) {
			results[name] = { error: `${error.name}: ${error.message}` };
		}
	}
	return results;
}

const results = [];
for (const path of groups) results.push(await readGroup(path));
process.stdout.write(JSON.stringify({ float16: "Float16Array" in globalThis, results }));
