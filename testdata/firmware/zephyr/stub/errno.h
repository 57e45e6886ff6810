/* What the sample uses of the C library's header. */
#ifndef STUB_ERRNO_H
#define STUB_ERRNO_H

enum { EIO = 5, EINVAL = 22 };

#endif
