package bitmap

func setVectors(on bool) { vectors = on }
