// Package inputs opens what the user names as the input: files, folders, patterns, URLs,
// and standard input. Several files of one schema are one source, in the order of their
// names, and key=value folders are columns, as Hive has them.
//
// The content of a file says its format. CSV and JSON lines are recognized by the extension.
package inputs
