// Accesses to a mapped file as programs in Rust make them to a BAR:
//
//     patterns FILE [list]
//
// It prints those whose number and order the compiler does not choose.
use std::fs::OpenOptions;
use std::os::fd::AsRawFd;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

extern "C" {
    fn mmap(at: *mut u8, length: usize, prot: i32, flags: i32, fd: i32, offset: i64) -> *mut u8;
}

#[repr(C)]
#[derive(Clone, Copy, PartialEq)]
struct Block {
    a: [u64; 5],
    b: u32,
    c: [u8; 12],
}

unsafe fn store(p: *mut u8, at: usize, v: u32) {
    ptr::write_volatile(p.add(at) as *mut u32, v);
    println!("= W {:x} 4 {:08x}", at, v.swap_bytes());
}

unsafe fn load(p: *mut u8, at: usize) {
    let v = ptr::read_volatile(p.add(at) as *const u32);
    println!("= R {:x} 4 {:08x}", at, v.swap_bytes());
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let file = OpenOptions::new().read(true).write(true).open(&arguments[1]).unwrap();
    unsafe {
        let p = mmap(ptr::null_mut(), 1 << 20, 3, 1, file.as_raw_fd(), 0);
        for i in 0..50usize {
            store(p, 8 * i, (i as u32).wrapping_mul(0x01020304));
            load(p, 8 * i);
        }
        let atomic = &*(p.add(0x9000) as *const AtomicU32);
        atomic.store(5, Ordering::Release);
        println!("= W 9000 4 05000000");
        let v = atomic.load(Ordering::Acquire);
        println!("= R 9000 4 {:08x}", v.swap_bytes());
        if arguments.len() > 2 {
            return;
        }
        let from: Vec<u8> = (0..20000usize).map(|i| (i * 7 + i / 256) as u8).collect();
        let mut to = vec![0u8; from.len()];
        let (mut n, mut sum) = (1usize, 0usize);
        while n < from.len() {
            ptr::copy_nonoverlapping(from.as_ptr(), p.add(4096), n);
            ptr::copy(p.add(4096), p.add(4099), n);
            ptr::write_bytes(p.add(80000), n as u8, n);
            ptr::copy_nonoverlapping(p.add(4099), to.as_mut_ptr(), n);
            sum += to[..n].iter().map(|&b| b as usize).sum::<usize>();
            n = n * 3 / 2 + 1;
        }
        let one = Block { a: [1, 2, 3, 4, 5], b: 6, c: [7; 12] };
        ptr::write(p.add(0x20000) as *mut Block, one);
        let two = ptr::read(p.add(0x20000) as *const Block);
        let words = std::slice::from_raw_parts_mut(p.add(0x28000) as *mut u32, 500);
        for (i, w) in words.iter_mut().enumerate() {
            *w = i as u32 * 3;
        }
        println!("{} {} {}", sum, one == two, words.iter().sum::<u32>());
    }
}
