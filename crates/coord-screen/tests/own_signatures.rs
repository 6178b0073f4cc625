//! Signatures of a user, beside the known ones.

// S0-01: the list of signatures can be extended by the user.
#[test]
fn s0_01_a_users_own_signature_is_found_beside_the_known_ones() {
    let screen = "at work\nSegfault in the renderer\n";
    assert_eq!(coord_screen::signature_in(screen), None);
    assert!(coord_screen::add_signatures(vec!["Segfault in the renderer".to_owned()]));
    assert_eq!(coord_screen::signature_in(screen), Some("Segfault in the renderer"));
    let known = "RangeError: Maximum call stack size exceeded";
    assert_eq!(coord_screen::signature_in(known), Some(known));
    assert!(!coord_screen::add_signatures(Vec::new()), "once");
}
