
use std::time::Instant;
use filrouge_store::text_index::*;
use filrouge_store::contract::text_index::{all_of, query, shard, update, document};
use super::on;
#[test]
fn measure() {
    let d = crate::database();
    let index = on(&d.url());
    let b = std::fs::read("/tmp/h/engines/c1.bin").unwrap();
    let mut p = 0;
    let mut u = || 0usize;
    let _ = &mut u;
    let rd = |p: &mut usize| { let v = u32::from_le_bytes(b[*p..*p+4].try_into().unwrap()) as usize; *p += 4; v };
    let n = rd(&mut p);
    let a = shard("r", "a");
    let mut docs = vec![];
    for i in 0..n {
        let k = rd(&mut p);
        let mut t = vec![];
        for _ in 0..k { let l = rd(&mut p); t.push(std::str::from_utf8(&b[p..p+l]).unwrap().to_owned()); p += l; }
        docs.push(document(&i.to_string(), i as u64, &t.join("\u{1f}")));
    }
    let begun = Instant::now();
    for (s, part) in docs.chunks(40).enumerate() {
        index.apply(&[update(&a, &format!("s{s}"), Gone::All, part.to_vec())], Some(b"x")).unwrap();
    }
    println!("build {:?}", begun.elapsed());
    index.tidy().unwrap();
    println!("{:?}", index.status().unwrap());
    let begun = Instant::now();
    index.apply(&[update(&a, "s3", Gone::Keys(vec![]), vec![document("new", 9, &docs[5].folded)])], Some(b"y")).unwrap();
    println!("one message {:?}", begun.elapsed());
    let reach = Reach::Shard(a.clone());
    for (any, words) in [(false, &["susovujevt"][..]), (false, &["hasigawycz"]), (false, &["the"]), (false, &["error"]), (false, &["function"]), (false, &["error", "function"]), (false, &["snake_case"]), (false, &["学习"]), (false, &[]), (true, &["error", "function", "session", "susovujevt"])] {
        let terms = all_of(words);
        let mut q = query(&reach, &terms); q.any = any;
        let mut times = vec![];
        let mut found = vec![];
        for _ in 0..15 { let t = Instant::now(); found = index.candidates(&q).unwrap(); times.push(t.elapsed()); }
        times.sort();
        let t = Instant::now(); let mut c = 0;
        let first: Vec<u64> = found.iter().take(50).map(|c| c.document).collect();
        index.bodies(&first, &mut |_, _| { c += 1; true }).unwrap();
        println!("{any} {words:?}: {} p50 {:?} max {:?}; {c} bodies {:?}", found.len(), times[7], times[14], t.elapsed());
    }
    let all = index.without_vector("e", u32::MAX, 99999).unwrap();
    let v: Vec<_> = all.iter().map(|n| (*n, vec![(*n % 100) as i8; 384])).collect();
    let t = Instant::now();
    for part in v.chunks(500) { index.put_vectors("e", part).unwrap(); }
    println!("put vectors {:?}", t.elapsed());
    let q = query(&reach, &[]);
    let t = Instant::now(); index.nearest("e", &[1; 384], &q, 20).unwrap(); println!("nearest {:?}", t.elapsed());
    let t = Instant::now(); index.nearest("e", &[1; 384], &q, 20).unwrap(); println!("nearest {:?}", t.elapsed());
    let t = Instant::now(); println!("forget {} {:?}", index.forget(b"r", "s3").unwrap(), t.elapsed());
}
