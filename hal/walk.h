// Fields of a Walk and of a command, and numbers of image.fbs: walk.go holds them.
#define walkNext     0
#define walkWindows  8
#define walkMemories 16
#define walkStop     24
#define walkWhy      32
#define walkGot      40
#define walkWant     48
#define walkAt       56
#define walkHomes    64

#define cWidth  1
#define cMode   2
#define cWindow 4
#define cIndex  6
#define cOffset 8
#define cAmount 12
#define cValue  16
#define cMask   24
#define cSize   32

#define WRITE    $1
#define COPYIN   $4
#define FILL     $5
#define COPYOUT  $6
#define CHECK    $7
#define COMPARE  $8
#define POINT    $9
#define FENCE    $10
#define WRITE4   $0x401 // width 4
#define EQUAL    $1
#define FIXED    $2
#define BULK     $3
