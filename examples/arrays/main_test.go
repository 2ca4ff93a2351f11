package main

func Example() {
	main()
	// Output: [19.312128  12.07008  48.28032] 48.28032
}
