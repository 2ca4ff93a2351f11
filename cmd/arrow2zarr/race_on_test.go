//go:build race

package main

// raceDetector multiplies the memory that a program takes.
const raceDetector = true
