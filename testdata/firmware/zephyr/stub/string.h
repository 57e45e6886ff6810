/* What the sample uses of the C library's header. */
#ifndef STUB_STRING_H
#define STUB_STRING_H

#include "memory.h"

#endif
