//! Panics, threads and trait objects.
use std::panic::{self, AssertUnwindSafe};
use std::sync::mpsc;
use std::thread;

struct Guard<'a>(&'a mut u32);
impl Drop for Guard<'_> {
    fn drop(&mut self) {
        *self.0 += 1;
    }
}

#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn plain(n: u32) -> u32 {
    n.wrapping_mul(17) + 1
}

#[unsafe(no_mangle)]
#[inline(never)]
pub fn may_panic(n: u32, drops: &mut u32) -> u32 {
    let _guard = Guard(drops);
    match n % 5 {
        0 => panic!("number {n}"),
        1 => std::hint::black_box(&[1u32, 2, 3][..])[n as usize + 3],
        2 => std::hint::black_box(None::<u32>).expect("nothing"),
        _ => plain(n) % 7,
    }
}

trait Animal {
    fn legs(&self) -> u32;
}
struct Cat;
struct Bird;
impl Animal for Cat {
    #[inline(never)]
    fn legs(&self) -> u32 { std::hint::black_box(4) }
}
impl Animal for Bird {
    #[inline(never)]
    fn legs(&self) -> u32 { std::hint::black_box(2) }
}

fn main() {
    panic::set_hook(Box::new(|_| {}));
    let (mut drops, mut caught, mut sum) = (0, 0, 0);
    for i in 0..50 {
        match panic::catch_unwind(AssertUnwindSafe(|| may_panic(i, &mut drops))) {
            Ok(value) => sum += value,
            Err(_) => caught += 1,
        }
    }
    let (sender, receiver) = mpsc::channel();
    let threads: Vec<_> = (0..8)
        .map(|i| {
            let sender = sender.clone();
            thread::spawn(move || {
                for j in 0..1000 {
                    sender.send(plain(j + i)).unwrap();
                }
                if i % 2 == 0 {
                    panic!("thread");
                }
            })
        })
        .collect();
    drop(sender);
    let received = receiver.iter().count();
    let failed = threads.into_iter().filter_map(|t| t.join().err()).count();
    let zoo: Vec<Box<dyn Animal>> = (0..30).map(|i| if i % 3 == 0 { Box::new(Bird) as Box<dyn Animal> } else { Box::new(Cat) }).collect();
    let legs: u32 = zoo.iter().map(|a| a.legs()).sum();
    println!("{drops} {caught} {sum} {received} {failed} {legs}");
    println!("expect entries may_panic 50");
    println!("expect entries plain 8020");
}
