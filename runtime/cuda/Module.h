// The code of a bundle on a device: a cubin where there is one, else its PTX.
#ifndef ALTGRAD_RUNTIME_MODULE_H
#define ALTGRAD_RUNTIME_MODULE_H

#include "bundle/Bundle.h"
#include "cuda/Driver.h"

namespace altgrad::runtime {

// Loads the bundle into the current context, which is of `device`: its own
// cubin for exactly this capability; what the driver has made of the PTX
// before, from the cache; or the PTX, whose cubin is kept then. A cubin that
// does not load is made again.
altgrad_status loadModule(const Driver &driver, const Bundle &bundle,
                          Device device, Module &out);

// What a key says of the code that a device is given, of the device and of its driver; "" where the driver does not
// say.
std::string identityOf(const Driver &driver, const Bundle &bundle, Device device);

} // namespace altgrad::runtime

#endif // ALTGRAD_RUNTIME_MODULE_H
