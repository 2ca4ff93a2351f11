package elementwise

import "math"

// nat is NaT, "not a time".
const nat = math.MinInt64

func addTimes(l *[ops][Types]Loop) {
	for op, f := range map[Op]func(x, y int64) int64{
		TimeAdd:       propagateNaT(func(x, y int64) int64 { return x + y }),
		TimeSubtract:  propagateNaT(func(x, y int64) int64 { return x - y }),
		TimeMultiply:  propagateNaT(func(x, y int64) int64 { return x * y }),
		TimeMaximum:   func(x, y int64) int64 { return choose(x == nat || y != nat && x >= y, x, y) },
		TimeMinimum:   func(x, y int64) int64 { return choose(x == nat || y != nat && x <= y, x, y) },
		TimeFmax:      func(x, y int64) int64 { return choose(y == nat || x != nat && x >= y, x, y) },
		TimeFmin:      func(x, y int64) int64 { return choose(y == nat || x != nat && x <= y, x, y) },
		TimeDivide:    natIfZero(quotient[int64]),
		TimeRemainder: propagateNaT(natIfZero(remainder[int64])),
		TimeQuotient: func(x, y int64) int64 {
			if x == nat || y == nat {
				return 0
			}
			return floorDivide(x, y)
		},
	} {
		l[op][Int64] = binaryLoop(f)
	}
	for op, f := range map[Op]func(x, y int64) bool{
		TimeEqual:        func(x, y int64) bool { return x == y && x != nat },
		TimeNotEqual:     func(x, y int64) bool { return x != y || x == nat },
		TimeLess:         func(x, y int64) bool { return x < y && x != nat },
		TimeLessEqual:    func(x, y int64) bool { return x <= y && x != nat },
		TimeGreater:      func(x, y int64) bool { return x > y && y != nat },
		TimeGreaterEqual: func(x, y int64) bool { return x >= y && y != nat },
	} {
		l[op][Int64] = binaryLoop(f)
	}
	l[TimeIsNaN][Int64] = unaryLoop(func(x int64) bool { return x == nat })
	l[TimeIsFinite][Int64] = unaryLoop(func(x int64) bool { return x != nat })
	l[TimeNegative][Int64] = negative[int64]
	l[TimeAbsolute][Int64] = absolute[int64]
}

func propagateNaT(f func(x, y int64) int64) func(x, y int64) int64 {
	return func(x, y int64) int64 {
		if x == nat || y == nat {
			return nat
		}
		return f(x, y)
	}
}

// natIfZero returns NaT for division by zero and for a NaT dividend.
func natIfZero(f func(x, y int64) int64) func(x, y int64) int64 {
	return func(x, y int64) int64 {
		if x == nat || y == 0 {
			return nat
		}
		return f(x, y)
	}
}
