// What the fake driver makes of PTX: a text that begins with "cubin of".
#ifndef ALTGRAD_TESTS_FAKELINK_H
#define ALTGRAD_TESTS_FAKELINK_H

#include "cuda/Driver.h"

altgrad::runtime::Result cuDeviceGetName(char *out, int size,
                                         altgrad::runtime::Device device);
altgrad::runtime::Result cuLinkCreate(unsigned count, int *options,
                                      void **values,
                                      altgrad::runtime::LinkState *out);
altgrad::runtime::Result cuLinkAddData(altgrad::runtime::LinkState state,
                                       int type, void *data, size_t size,
                                       const char *name, unsigned, int *,
                                       void **);
altgrad::runtime::Result cuLinkComplete(altgrad::runtime::LinkState state,
                                        void **out, size_t *size);
altgrad::runtime::Result cuLinkDestroy(altgrad::runtime::LinkState state);

#endif // ALTGRAD_TESTS_FAKELINK_H
