package soft

import "github.com/quiver-gpu/quiver/cudabuf/internal/driver"

// Results that nothing but this driver gives by name.
const (
	peerUnsupported    driver.Result = 217
	illegalState       driver.Result = 401
	peerEnabled        driver.Result = 704
	contextDestroyed   driver.Result = 709
	notPermitted       driver.Result = 800
	captureUnsupported driver.Result = 900
	captureInvalidated driver.Result = 901
	captureMerge       driver.Result = 902
	captureUnmatched   driver.Result = 903
	captureUnjoined    driver.Result = 904
	captureIsolation   driver.Result = 905
	captureImplicit    driver.Result = 906
	capturedEvent      driver.Result = 907
	captureWrongThread driver.Result = 908
)
